"""Load for minutes while every service is rolled and killed, and what the load has seen."""
