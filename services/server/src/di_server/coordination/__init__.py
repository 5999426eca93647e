"""Operations for coordinators: list, add, remove and replace their replicas."""
