"""What the pipeline does with each event."""

from typing import Any


def act(event: Any, config: dict[str, Any]) -> None:
    """`event.event` behaves as a mapping of the decoded value; raising an error makes a dead letter of the event."""
    order = event.event
    if "customer" not in order:
        raise ValueError(f"order {order.get('id')} has no customer")
    print(f"{config['greeting']}, {order['customer']}! Order {order['id']} has arrived.")  # noqa: T201 - this is the example's action
