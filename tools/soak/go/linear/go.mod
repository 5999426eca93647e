module di-orchestrator/tests/linear

go 1.24.0

require github.com/anishathalye/porcupine v1.3.1

tool di-orchestrator/tests/linear
