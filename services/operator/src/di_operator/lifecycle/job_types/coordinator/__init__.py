"""Jobs with a coordinator: the coordinator's pod alone decides the phase; other pods come
and go.
"""
