"""The operations of coordinators: list their replicas, add, remove and replace some."""
