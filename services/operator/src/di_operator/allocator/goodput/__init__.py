"""How fast a job makes progress on so many replicas, learnt from what it has measured."""
