module di-orchestrator/cluster/coredns

go 1.26.0
