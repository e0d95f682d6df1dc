"""What seeing and steering costs: pages, lists and taps."""
