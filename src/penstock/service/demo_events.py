"""The demo's generator: orders, page views, payments and refunds of a small shop, produced by a process of its own."""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator

import orjson

from penstock.config.spec import ConnectionSpec
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.producer import NewRecord, RecordProducer

_CUSTOMERS = ("ada", "grace", "edsger", "barbara", "alan", "katherine", "dennis", "radia", "linus", "hedy")
_PAGES = ("/", "/cart", "/checkout", "/products/17", "/products/23", "/products/42", "/help", "/account")
_STATUSES = ("new", "paid", "paid", "shipped", "cancelled")
TOPICS = ("orders", "clicks", "payments", "refunds")

_TICK = 0.1
"""Seconds between batches; the embedded broker dislikes many tiny ones."""


class Shop:
    """Makes events; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._orders = 0

    def events(self, count: int) -> Iterator[NewRecord]:
        """About a fifth orders, a fifth payments, few refunds, the rest page views."""
        for _ in range(count):
            kind = self._random.random()
            customer = self._random.choice(_CUSTOMERS)
            if kind < 0.2:
                yield self._order(customer)
            elif kind < 0.4:
                yield self._payment(customer)
            elif kind < 0.41:
                yield self._refund(customer)
            else:
                yield self._click(customer)

    def _order(self, customer: str) -> NewRecord:
        self._orders += 1
        total = round(self._random.lognormvariate(4, 0.8), 2)
        status = self._random.choice(_STATUSES)
        order = {"id": self._orders, "customer": customer, "total": total, "status": status}
        return _record("orders", customer, order)

    def _click(self, customer: str) -> NewRecord:
        click = {
            "user": customer,
            "page": self._random.choice(_PAGES),
            "bot": self._random.random() < 0.3,
            "ip": f"192.0.2.{self._random.randrange(256)}",
        }
        return _record("clicks", customer, click)

    def _refund(self, customer: str) -> NewRecord:
        amount = round(self._random.lognormvariate(4, 0.8), 2)
        return _record("refunds", customer, {"order": self._orders, "customer": customer, "amount": amount})

    def _payment(self, customer: str) -> NewRecord:
        payment = {
            "id": f"p{self._random.randrange(10**8):08}",
            "customer": customer,
            "amount": round(self._random.lognormvariate(4, 0.8), 2),
            "currency": self._random.choice(("EUR", "EUR", "USD", "GBP")),
        }
        odd = self._random.random()
        if odd < 0.01:
            return NewRecord("payments", b"\x00\x1b[31mnot json", customer.encode())
        if odd < 0.02:
            payment["currency"] = "XTS"
        elif odd < 0.025:
            del payment["amount"]
        return _record("payments", customer, payment)


def _record(topic: str, key: str, value: object) -> NewRecord:
    return NewRecord(topic, orjson.dumps(value), key.encode())


def generate(bootstrap: str, rate: float, seed: int) -> None:
    """Produce until the process that started this one is gone."""
    client = KafkaClientConfig.of(ConnectionSpec(bootstrap=bootstrap))
    shop = Shop(seed)
    parent = os.getppid()
    begin, sent = time.monotonic(), 0
    with RecordProducer(client, {"linger.ms": 10}) as producer:
        while os.getppid() == parent:
            due = int((time.monotonic() - begin) * rate) - sent
            if due > 0:
                # After a pause of the machine the backlog is not made up for at once.
                producer.send(list(shop.events(min(due, int(rate)))))
                sent += due
            time.sleep(_TICK)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--rate", type=float, default=300)
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    generate(given.bootstrap, given.rate, given.seed)
