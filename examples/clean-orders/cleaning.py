"""The transform of the example: names with capitals at their beginnings and nothing around them."""

from typing import Any


def clean(event: Any) -> Any:
    order = dict(event.value)
    customer = dict(order["customer"])
    customer["name"] = " ".join(customer["name"].split()).title()
    return event.replaced(order | {"customer": customer})
