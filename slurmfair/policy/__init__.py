"""One file a queue policy: a sort key and what a failed attempt closes."""
