module di-orchestrator/cluster/etcd

go 1.26.0
