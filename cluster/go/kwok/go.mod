module di-orchestrator/cluster/kwok

go 1.26.0
