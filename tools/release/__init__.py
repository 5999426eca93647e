"""What a release of DI Orchestrator is made of. Each module is a command of the Makefile."""
