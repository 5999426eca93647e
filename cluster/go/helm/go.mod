module di-orchestrator/cluster/helm

go 1.26.0
