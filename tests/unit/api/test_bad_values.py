"""One wrong value in a good job: what is refused, by the message that refuses it."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import ALMOST_ALL, Job, coordinated_job, job, leader, task
from tests.unit.api.refusals import refused

OF_A_JOB = refused(
    job(),
    """
spec.scheduling.gang: "yes": must be true or false
spec.scheduling.gnag: true: unknown field; did you mean gang?
(scheduling.gang=true) spec.scheduling.gangScheduler: "volcano": does not go with scheduling.gang:
  the allocator would hold back pods that this scheduler waits for; choose one of the two
(preemptible=true) spec.scheduling.gangScheduler: "scheduler-plugins": does not go with preemptible:
  the allocator chooses the node of each pod
spec.scheduling.gangScheduler: "slurm": must be one of none, scheduler-plugins, volcano, kubernetes
(scheduling.gangScheduler=scheduler-plugins) spec.scheduling.queue: "rl": goes with gangScheduler
  volcano; other schedulers have no queues
(preemptible=true) spec.scheduling.provisioningClassName: "a": does not go with preemptible: the
  allocator chooses the node of each pod
(scheduling.gang=true) spec.scheduling.provisioningClassName: "a": does not go with scheduling.gang:
  the allocator waits for room on nodes that are there; choose one of the two
spec.scheduling: []: must be an object
spec.priority: "urgent": must be one of normal, high
spec.priority: {}: must be one of normal, high
spec.cleanPodPolicy: "ALL": must be one of Running, All, None
spec.preemptible: "yes": must be true or false
spec.suspend: 1: must be true or false
spec.backofLimit: 2: unknown field; did you mean backoffLimit?
spec.cleanpodpolicy: "All": unknown field; did you mean cleanPodPolicy?
spec.volumes: 1: must be a list
(volumes=[{name: data}]) spec.volumes[1].name: "data": is the name of another volume of the job
  already
(volumes=[{name: disk, hostPath: {path: /disk}}]) spec.checkpoint.volume: "disc": no volume in
  spec.volumes has that name
(checkpoint={}) spec.checkpoint.volume: is required, unless persistentVolumeClaim is given
(volumes=[{name: disk, hostPath: {path: /disk}}]; checkpoint.volume=disk)
  spec.checkpoint.persistentVolumeClaim: "a": checkpoints are in a volume of the job or in a claim,
  not in both
(volumes=[{name: a, emptyDir: {}}]) spec.checkpoint.volume: "a": is of the kind emptyDir, which ends
  with its pod
(volumes=[{name: a}]) spec.checkpoint.volume: "a": is of the kind emptyDir, which ends with its pod
(failurePolicy.rules=[{tasks: [a]}]; successPolicy.tasks=[a]; progressPolicy={timeoutSeconds: 9,
  action: RestartTask, tasks: [a]}; scheduling.topology=[{tasks: [a], required: a/b}])
  spec.tasks: []: must hold at least one task
(tasks[0].podsPerReplica=2; scheduling.topology=[{tasks: [learner], required: a/b, colocate:
  Replica}, {required: a/c, colocate: Replica}]) spec.scheduling.topology[1].tasks[0]: "learner":
  spec.scheduling.topology[0] says already where its replicas are
(scheduling.topology=[{tasks: [learner]}]) spec.scheduling.topology[0].required: "A_b/rack": must be
  the key of a node's label, such as topology.kubernetes.io/zone
(tasks[0].type=collector; checkpoint.persistentVolumeClaim=a) spec.checkpoint: an object: only
  learners have checkpoints, and this job has none
(failurePolicy.rules=[{action: FailJob}, {onReasons: [Evicted]}]) spec.failurePolicy.rules[0]: an
  object: every failure fits this rule, so those after it are never reached
spec.failurePolicy.rules[0].growMemory: {}: no container of any task has a memory limit, so there
  is nothing to grow
(failurePolicy.rules[0].action=RestartInPlace) spec.failurePolicy.rules[0].avoidNode: true: goes
  with actions that make another pod, not with RestartInPlace
(failurePolicy.rules[0].action=Ignore) spec.failurePolicy.rules[0].avoidNode: true: goes with
  actions that count a restart, not with Ignore
(tasks[0].podsPerReplica=2) spec.failurePolicy.rules[0].action: "RestartInPlace": replicas of task
  learner are of several pods, and created again as a whole; name the tasks that the rule is about,
  without it
(failurePolicy.rules=[{tasks: [learner], action: RestartInPlace}]; tasks[1]={type: collector,
  podsPerReplica: 2, template: {spec: {containers: [{name: a}]}}}; failurePolicy.rules[1].tasks=
  [collector]) spec.failurePolicy.rules[1].action: "RestartInPlace": replicas of task collector are
  of several pods, and created again as a whole; name the tasks that the rule is about, without it
(progressPolicy.timeoutSeconds=9) spec.progressPolicy.action: "Restart": must be one of Notify,
  RestartTask, RestartJob, FailJob
(progressPolicy={timeoutSeconds: 9, action: RestartJob, tasks: [learner]})
  spec.progressPolicy.tasks: a list of 1: goes with action RestartTask
""",
)
OF_A_TASK = refused(
    job(),
    """
spec.tasks: is required, unless the job has a coordinator
spec.tasks: []: must hold at least one task
(tasks={a: 1}) spec.tasks: an object: must be a list
spec.tasks[1]: "evaluator": must be an object
(tasks[1]={type: learner, template: {spec: {containers: [{name: a}]}}}) spec.tasks[1].name:
  "learner": is the name of spec.tasks[0] already; of several tasks of a type at most one goes
  without a name of its own
(tasks[1]={type: none, template: {spec: {containers: [{name: a}]}}}) spec.tasks[1].name: "learner":
  is the name of spec.tasks[0] already
spec.tasks[0].name: "": must be a DNS label: 1 to 63 lower-case letters, digits and dashes, with a
  letter or digit at both ends
spec.tasks[0].name: "Actor": must be a DNS label: 1 to 63 lower-case letters, digits and dashes,
  with a letter or digit at both ends
spec.tasks[0].name: "a\\n": must be a DNS label: 1 to 63 lower-case letters, digits and dashes,
  with a letter or digit at both ends
spec.tasks[0].name: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be a
  DNS label: 1 to 63 lower-case letters, digits and dashes, with a letter or digit at both ends
(tasks[0].type=none) spec.tasks[0].name: is required unless the type is learner, collector or
  evaluator
(tasks[0].name=a) spec.tasks[0].type: "lerner": must be one of learner, collector, evaluator, none
(tasks[0].name=a) spec.tasks[0].type: is required
spec.tasks[0].template: is required
spec.tasks[0].template: null: is required
spec.tasks[0].template: "busybox": must be an object
spec.tasks[0].replicas: 0: must be 1 or more
spec.tasks[0].replicas: "two": must be a whole number, 1 or more
spec.tasks[0].replicas: 1.5: must be a whole number, 1 or more
spec.tasks[0].replicas: true: must be a whole number, 1 or more
spec.tasks[0].replicas: 2147483648: must be 2147483647 or less
(tasks[0].maxReplicas=2) spec.tasks[0].minReplicas: 3: must be at most maxReplicas, 2
(tasks[0].minReplicas=2) spec.tasks[0].replicas: 1: must be at least minReplicas, 2
(tasks[0].maxReplicas=2) spec.tasks[0].replicas: 3: must be at most maxReplicas, 2
(tasks[0].replicas=100000) spec.tasks: a list of 1: may reach 100000 pods, of each task the larger
  of replicas and maxReplicas counted, and a job may have 4096; lower some, or make it several jobs
(tasks[0].maxReplicas=4097) spec.tasks: a list of 1: may reach 4097 pods, of each task the larger
  of replicas and maxReplicas counted, and a job may have 4096; lower some, or make it several jobs
(tasks[0].maxReplicas=4000; tasks[1]={type: none, name: a, replicas: 97, template: {spec:
  {containers: [{name: a}]}}}) spec.tasks: a list of 2: may reach 4097 pods, of each task the larger
  of replicas and maxReplicas counted, and a job may have 4096; lower some, or make it several jobs
(tasks[0].replicas=3; tasks[0].maxReplicas=5; tasks[0].podsPerReplica=1000) spec.tasks: a list of 1:
  may reach 5000 pods, of each task the larger of replicas and maxReplicas counted, and a job may
  have 4096; lower some, or make it several jobs
spec.tasks[0].podsPerReplica: "2": must be a whole number, 1 or more
(tasks[0].ports=[{name: a, scope: Job}]) spec.tasks[0].ports[0].name: []: must be the name of a
  port: 1 to 15 lower-case letters, digits and single dashes between them, at least one letter
spec.tasks[0].podsPerReplica: 5000: must be 1024 or less
spec.tasks[0].template.spec.priority: 2147483648: must be a number of 32 bits
spec.tasks[0].template.spec.priority: -2147483649: must be a number of 32 bits
(tasks[0].podsPerReplica=2; tasks[0].minReplicas=1; tasks[0].maxReplicas=2)
  spec.tasks[0].processGroup.elastic: true: must be false with podsPerReplica above 1, each replica
  is a group of its own
spec.tasks[0].replica: 2: unknown field; did you mean replicas?
spec.tasks[0].xyzzy: 2: unknown field; the fields here are activeDeadlineSeconds, backoffLimit,
  dependsOn, drain, elastic, leaderTemplatePatch, maxReplicas, maxUnavailable, minReplicas, name,
  nodeCheck, onCompletion, podsPerReplica, ports, processGroup, replicas, restartedAt, scalable,
  service, standby, template, type, vacant
spec.tasks[0].dependsOn[0]: "collector": no task of this job has that name
spec.tasks[0].dependsOn[0]: "learner": a task cannot wait for itself
spec.tasks[0].dependsOn: "collector": must be a list
spec.tasks[0].backoffLimit: -1: must be 0 or more
spec.tasks[0].backoffLimit: "unlimited": must be Unlimited, or a number
spec.tasks[0].backoffLimit: true: must be a whole number, 0 or more
(tasks[0].processGroup.framework=jax) spec.tasks[0].processGroup.processesPerReplica: 2: must be 1,
  jax has one process in each pod
(tasks[0].processGroup.framework=jax; tasks[0].minReplicas=1; tasks[0].maxReplicas=2)
  spec.tasks[0].processGroup.elastic: true: must be false, jax takes no member in
(tasks[0].name=trainer; tasks[0].processGroup={framework: tensorflow}; successPolicy={tasks:
  [trainer]}; failurePolicy=null; progressPolicy=null; scheduling=null) spec.tasks[0].name:
  "trainer": must be one of chief, worker, ps, evaluator: the name of a task is its role in a
  cluster of tensorflow
(tasks[0].processGroup.framework=xgboost) spec.tasks[0].processGroup.processesPerReplica: 2: must be
  1, a worker of xgboost uses the cores of its pod by threads
(tasks[0].processGroup.framework=xgboost; tasks[0].minReplicas=1; tasks[0].maxReplicas=2)
  spec.tasks[0].processGroup.elastic: true: must be false, a tracker of xgboost admits no further
  worker
(tasks[0].maxReplicas=2) spec.tasks[0].processGroup.elastic: true: an elastic group needs
  minReplicas and maxReplicas; minReplicas is missing
(tasks[0].minReplicas=1) spec.tasks[0].processGroup.elastic: true: an elastic group needs
  minReplicas and maxReplicas; maxReplicas is missing
(tasks[0].processGroup.deadlineSeconds=60) spec.tasks[0].processGroup.lastCallSeconds: 61: must be
  at most deadlineSeconds, 60
(preemptible=true) spec.tasks[0].nodeCheck.action: "AvoidNode": must be Notify, for the allocator
  chooses the nodes of a preemptible job
(tasks[0].leaderTemplatePatch={spec: {}}) spec.tasks[0].leaderTemplatePatch: an object: needs
  podsPerReplica above 1; change the template of the task
(tasks[0].podsPerReplica=2) spec.tasks[0].leaderTemplatePatch: []: must be an object
spec.tasks[0].template.spec: must be the pod spec, an object
spec.tasks[0].template.spec: 1: must be the pod spec, an object
(tasks[0].template.spec={}) spec.tasks[0].template.spec.containers: must hold at least one container
spec.tasks[0].template.spec.containers: []: must hold at least one container
spec.tasks[0].template.spec.containers[0].name: is required
spec.tasks[0].template.spec.containers[0].name: "": is required
(tasks[0].template.spec.containers=[{name: a}, {}]) spec.tasks[0].template.spec.containers[1].name:
  "a": is the name of another container already
(tasks[0].template.spec.containers[0].resources.limits.cpu="1")
  spec.tasks[0].template.spec.containers[0].resources.requests.cpu: "1.5": must be at most the
  limit, 1
(tasks[0].template.spec.initContainers=[{name: a, resources: {limits: {memory: 1G}}}])
  spec.tasks[0].template.spec.initContainers[0].resources.requests.memory: "1Gi": must be at most
  the limit, 1G
(tasks[0].template.spec.resources.requests.cpu=1) spec.tasks[0].template.spec.resources.limits.cpu:
  "x": must be a quantity, such as 2, 500m or 1.5Gi
(tasks[0].template.spec.resources.limits.cpu=1) spec.tasks[0].template.spec.resources.requests.cpu:
  2: must be at most the limit, 1
""",
)
OF_A_FULL_JOB = refused(
    ALMOST_ALL,
    """
metadata.name: must be a name, a string
metadata.name: "": must be a name, a string
metadata.name: "cart.pole": must be lower-case letters, digits and dashes, with a letter or digit
  at both ends: the names of pods and their DNS names are made from it
metadata.name: "1st": must begin with a letter: task learner has a Service, <job>-learner
spec.tasks[0].template.metadata.labels["diengine/job"]: "another": is written by the operator as
  "cartpole"
spec.tasks[0].template.metadata.annotations["diengine/rank"]: "0": is written by the operator for
  each pod; leave it out
spec.tasks[0].template.metadata.labels["diengine/colour"]: "red": keys of diengine/ are reserved
spec.scheduling.topology[0].tasks[0]: "actor": no task of this job has that name
spec.scheduling.topology[0].tasks: []: must name a task
spec.scheduling.topology[0].required: is required, unless preferred is given
spec.scheduling.topology[0].preferred: "example.com/rack": exactly one of required and preferred is
  given
spec.scheduling.topology[0].required: "a rack": must be the key of a node's label, such as
  topology.kubernetes.io/zone
(scheduling.topology[1]={tasks: [learner], required: a/b, colocate: Tasks})
  spec.scheduling.topology[1].tasks[0]: "learner": spec.scheduling.topology[0] says already where
  all its pods are
(scheduling.topology[0].colocate=Replica) spec.scheduling.topology[0].tasks[0]: "learner": colocate
  Replica is for podsPerReplica above 1
(tasks[0].nodeCheck.action=Notify; preemptible=true) spec.scheduling.topology: a list of 1: does not
  go with preemptible: the allocator chooses the node of each pod
(scheduling.gang=true) spec.scheduling.topology: a list of 1: does not go with scheduling.gang: the
  allocator finds room for each pod by itself; gangScheduler goes with it
spec.successPolicy.tasks[1]: "critic": no task of this job has that name
spec.successPolicy.tasks[1]: "learner": is listed already
(tasks[0].onCompletion=RestartTask) spec.successPolicy.tasks[0]: "learner": the onCompletion of this
  task is RestartTask
spec.tasks[0].onCompletion: "Explode": must be one of CompleteJob, FailJob, RestartTask, RestartJob
spec.successPolicy.tasks: []: must name a task
spec.successPolicy.tasks: is required
spec.successPolicy.gracePeriodSeconds: -1: must be 0 or more
spec.successPolicy.operator: "Most": must be one of All, Any
spec.failurePolicy.rules[0].tasks[1]: "critic": no task of this job has that name
spec.failurePolicy.rules[0].action: "Explode": must be one of Restart, Ignore, FailJob,
  RestartTask, RestartJob, RestartInPlace
spec.failurePolicy.rules[0].onExitCodes: []: must be an object
(failurePolicy.rules[0].onExitCodes.operator=NotIn)
  spec.failurePolicy.rules[0].onExitCodes.values: []: must hold at least one exit code
(failurePolicy.rules[0].onExitCodes={operator: NotIn, values: [3, 3]})
  spec.failurePolicy.rules[0].onExitCodes.values: a list of 2: must hold no exit code twice
(failurePolicy.rules[0].onExitCodes={operator: In, values: [0, 3]})
  spec.failurePolicy.rules[0].onExitCodes.values: a list of 2: a container that failed has another
  exit code
(failurePolicy.rules[0].onExitCodes.operator=In)
  spec.failurePolicy.rules[0].onExitCodes.values[0]: 256: must be 255 or less
(failurePolicy.rules[0].onExitCodes={operator: In, values: [0-3]})
  spec.failurePolicy.rules[0].onExitCodes.values: a list of 1: a container that failed has another
  exit code
(failurePolicy.rules[0].onExitCodes.operator=In)
  spec.failurePolicy.rules[0].onExitCodes.values[0]: "128-256": must be a number from 0 to 255, or a
  range of these such as 128-255
(failurePolicy.rules[0].onExitCodes.operator=In)
  spec.failurePolicy.rules[0].onExitCodes.values[0]: "9-3": must be a number from 0 to 255, or a
  range of these such as 128-255
(failurePolicy.rules[0].onExitCodes.operator=In)
  spec.failurePolicy.rules[0].onExitCodes.values[0]: "all": must be a number from 0 to 255, or a
  range of these such as 128-255
(failurePolicy.rules[0].onExitCodes.operator=In)
  spec.failurePolicy.rules[0].onExitCodes.values[0]: null: may not be null
(failurePolicy.rules[0].onExitCodes.values=[1]) spec.failurePolicy.rules[0].onExitCodes.operator: is
  required
(failurePolicy.rules[0].action=RestartInPlace; failurePolicy.rules[1]={onReasons: [Evicted]})
  spec.failurePolicy.rules[0].growMemory: {}: goes with actions that make another pod, not with
  RestartInPlace
(failurePolicy.rules[0].action=FailJob) spec.failurePolicy.rules[0].growMemory: {}: goes with
  actions that count a restart, not with FailJob
(failurePolicy.rules[0].tasks=[collector]) spec.failurePolicy.rules[0].growMemory: {}: no container
  of task collector has a memory limit, so there is nothing to grow
spec.failurePolicy.rules[0].growMemory.limit: "2Gi": is less than the memory limit that a
  container of task learner has
(tasks[0].template.spec.containers[1]={name: b, image: b, resources: {limits: {memory: 1Gi}}})
  spec.failurePolicy.rules[0].growMemory.limit: "2Gi": is less than the memory limit that a
  container of task learner has
(failurePolicy.rules=[{growMemory: {}}]) spec.failurePolicy.rules[0].growMemory.limit: "2Gi": is
  less than the memory limit that a container of task learner has
(tasks[1].template.spec.containers[0].resources.limits.memory=8Gi;
  failurePolicy.rules[0].growMemory.limit=4Gi) spec.suspend: 1: must be true or false
spec.failurePolicy.rules[0].growMemory.maxStep: "lots": must be a quantity, such as 2, 500m or 1.5Gi
spec.failurePolicy.rules[0].growMemory.factor: 1: must be 2 or more
spec.failurePolicy.rules[0].growMemory.maxStep: "0": must be more than 0
spec.failurePolicy.rules[0].growMemory.limit: "lots": must be a quantity, such as 2, 500m or 1.5Gi
spec.failurePolicy.rules[0].growMemory.limit: "-1Gi": must not be negative
spec.failurePolicy.replicaBackoffLimit: -1: must be 0 or more
spec.failurePolicy.resetAfterSeconds: 0: must be 1 or more
spec.progressPolicy.timeoutSeconds: is required
spec.progressPolicy.timeoutSeconds: 0: must be 1 or more
spec.progressPolicy.firstTimeoutSeconds: 0: must be 1 or more
spec.progressPolicy.firstTimeoutSeconds: 599: must be at least timeoutSeconds, 600
spec.progressPolicy.tasks[0]: "critic": no task of this job has that name
spec.progressPolicy.tasks: []: must name a task, or be left out
spec.idlePolicy.waitingShare: 0: must be 1 or more
spec.idlePolicy.waitingShare: 101: must be 100 or less
spec.idlePolicy.seconds: 59: must be 60 or more
spec.idlePolicy.action: "Scale": must be one of Notify, Suspend, ScaleDown
spec.tasks[0].processGroup.framework: "tf": must be one of torch, jax,
  tensorflow, paddle, xgboost, mpi, none
spec.tasks[0].processGroup.processesPerReplica: 0: must be 1 or more
spec.tasks[0].processGroup.lastCallSeconds: -1: must be 0 or more
spec.tasks[0].service.ports: []: must hold at least one port
spec.tasks[0].service.ports: is required
spec.tasks[0].service.ports[0].name: is required
spec.tasks[0].service.ports[0].port: 65536: must be 65535 or less
spec.tasks[0].service.ports[0].targetPort: 0: must be 1 or more
spec.tasks[0].service.ports[0].targetPort: "80": must be a number, or the name of a port: 1 to 15
  lower-case letters, digits and single dashes between them, at least one letter
spec.tasks[0].service.ports[0].protocol: "tcp": must be one of TCP, UDP, SCTP
spec.tasks[0].service.select: "First": must be one of All, Leaders
(tasks[0].service.ports[1]={port: 81}) spec.tasks[0].service.ports[1].name: "http": is the name of
  another port of the Service already
(tasks[0].service.ports[1]={name: b, protocol: TCP}) spec.tasks[0].service.ports[1].port: 80:
  spec.tasks[0].service.ports[0] has that number and protocol already
spec.tasks[0].ports[0].name: is required
spec.tasks[0].ports[0].name: "a--b": must be the name of a port: 1 to 15 lower-case letters,
  digits and single dashes between them, at least one letter
spec.tasks[0].ports[0].scope: "Task": must be one of Pod, Job
spec.tasks[0].ports[1].name: "rpc": is the name of another port of the task already
spec.tasks[0].ports[0].name: "di-port": is a port of another meaning; declare it in the template
(tasks[0].template.spec.containers[0].ports=[{name: rpc, containerPort: 80}])
  spec.tasks[0].ports[0].name: "rpc": is the name of a port of a container in the template already
(tasks[1].ports=[{name: rpc, scope: Job}]) spec.tasks[0].ports[0].name: "rpc": is the name of
  spec.tasks[1].ports[0] already, a port of scope Job
(tasks[1].type=none; tasks[1].name=port-a) spec.tasks[1].ports[0].name: "a-nodes": DI_PORT_A_NODES
  is a variable of task port-a already
spec.tasks[0].template.spec.volumes[0].name: "data": is the name of a volume in spec.volumes
  already
spec.checkpoint.persistentVolumeClaim: "A": must be lower-case letters, digits, dashes and dots,
  as a claim's name is
spec.checkpoint.path: "models": must be an absolute path such as /checkpoint, without . or .. or a
  colon
spec.checkpoint.path: "/etc/diengine/nodes/a": /etc/diengine/nodes is where the operator puts its
  files; choose another, such as /checkpoint
spec.checkpoint.path: "/etc/diengine/nodes": /etc/diengine/nodes is where the operator puts its
  files; choose another, such as /checkpoint
spec.checkpoint.graceSeconds: 0: must be 1 or more
(checkpoint.path=/data; tasks[0].template.spec.containers[0].volumeMounts=[{name: data}];
  tasks[1].template.spec.containers[0].volumeMounts=[{name: data, mountPath: /data/}])
  spec.tasks[0].template.spec.containers[0].volumeMounts[0].mountPath: "/data/": is where
  spec.checkpoint is mounted; give one of them another path
spec.tasks[0].template.spec.volumes[0].name: "di-checkpoint": is what the operator calls the
  volume of spec.checkpoint; choose another
spec.code.configMap: is required
spec.code.configMap: "A": must be lower-case letters, digits, dashes and dots, as a ConfigMap's
  name is
spec.code.persistentVolumeClaim: "A": must be lower-case letters, digits, dashes and dots, as a
  claim's name is
(code.persistentVolumeClaim=shared) spec.code.parts: 2: is for a bundle in ConfigMaps, and this one
  is on a claim; leave out one of them
spec.code.sha256: "ABC": must be 64 hexadecimal digits in lower case, as `di submit` and `di push`
  write
spec.code.path: "code": must be an absolute path such as /code, without . or .. or a colon
spec.code.path: "/code/../etc": must be an absolute path such as /code, without . or .. or a colon
spec.code.path: "/var/run/di-code/a": /var/run/di-code is where the operator puts its files; choose
  another, such as /code
spec.code.requirements: "/a.txt": must be the path of a file in the bundle such as
  requirements.txt, without . or .. or a colon
spec.code.requirements: "../a.txt": must be the path of a file in the bundle such as
  requirements.txt, without . or .. or a colon
(code.path=/other) spec.tasks[0].template.spec.containers[0].volumeMounts[0].mountPath: "/other/":
  is where spec.code is mounted; give one of them another path
spec.tasks[0].template.spec.volumes[0].name: "di-code": is the name of a volume of spec.code; choose
  another
spec.tasks[0].template.spec.initContainers[0].name: "di-code": is the name of the container that
  unpacks spec.code; choose another
spec.tasks[0].nodeCheck.action: "Cordon": must be one of AvoidNode, Notify
spec.tasks[0].nodeCheck.command: "check": must be a list
spec.tasks[0].nodeCheck.command[1]: 1: must be a string
spec.tasks[0].nodeCheck.command[0]: null: must be a string
spec.tasks[0].template.spec.initContainers[0].name: "di-node-check": is the name of the container
  of the nodeCheck
(tasks[1].podsPerReplica=2) spec.tasks[1].leaderTemplatePatch.spec.restartPolicy: 1: must be a
  string
(tasks[1].dependsOn=[learner]) spec.tasks[1].dependsOn[1]: "learner": is listed already
(tasks[1].type=none; tasks[1].name=a; tasks[2]={type: none, template: {spec: {containers: [{name:
  a}]}}}) spec.tasks[2].name: "a": is the name of spec.tasks[1] already
(tasks[1].type=none; tasks[1].podsPerReplica=2; tasks[1].name=a; tasks[2]={type: none, template:
  {spec: {containers: [{name: a}]}}}) spec.tasks[2].name: "a-11": the pods of spec.tasks[1] are
  named so; choose another name
(tasks[1].dependsOn=[learner]; tasks[0].dependsOn=[collector]; tasks[2]={type: evaluator, dependsOn:
  [collector], template: {spec: {containers: [{name: a}]}}}) spec.tasks[0].dependsOn: a list of 1:
  tasks wait for each other in a circle: learner -> collector -> learner
""",
)
OF_A_LEADER = refused(
    leader({}),
    """
spec.tasks[0].leaderTemplatePatch.metadata.labels["diengine/job"]: "another": is written by the
  operator as "cartpole"
spec.tasks[0].leaderTemplatePatch.spec.containers: []: must hold at least one container
(tasks[0].leaderTemplatePatch.spec.containers=[{name: di-container}])
  spec.tasks[0].leaderTemplatePatch.spec.containers[0].imagee: "a": unknown field; did you mean
  image?
spec.tasks[0].leaderTemplatePatch.spec.restartPolicy: 1: must be a string
(tasks[0].leaderTemplatePatch.spec.containers=[{name: di-container, resources: {limits: {cpu: 1}}}])
  spec.tasks[0].leaderTemplatePatch.spec.containers[0].resources.requests.cpu: 2: must be at most
  the limit, 1
""",
)
BESIDE_A_COORDINATOR = refused(
    coordinated_job(),
    """
spec.preemptible: true: the allocator shares nodes among tasks only
spec.scheduling.gangScheduler: "volcano": the pods of a coordinator come one by one
spec.scheduling.gang: true: the pods of a coordinator come one by one
(tasks=[{type: learner, template: {spec: {containers: [{name: a}]}}}]) spec.tasks: a list of 1: a
  job has tasks or a coordinator, not both
(successPolicy={tasks: [a]}) spec.successPolicy: an object: the end of its coordinator ends the job
(checkpoint.persistentVolumeClaim=a) spec.coordinated.learner.template.spec.volumes[0].name:
  "di-checkpoint": is what the operator calls the volume of spec.checkpoint; choose another
(failurePolicy.rules=[{}]) spec.failurePolicy.rules[0].tasks[0]: "evaluator": no task of this job
  has that name
spec.failurePolicy.rules[0].action: "RestartInPlace": the templates of a coordinated job have a
  restartPolicy of their own
(progressPolicy.timeoutSeconds=9) spec.progressPolicy.action: "RestartTask": a job with a
  coordinator has no tasks; RestartJob restarts all its pods
(idlePolicy.waitingShare=80) spec.idlePolicy.action: "ScaleDown": a job with a coordinator has no
  tasks; Notify and Suspend are possible
spec.coordinated.coordinator: is required
spec.coordinated.colector: {}: unknown field; did you mean collector?
(coordinated.learner.template.spec={}) spec.coordinated.learner.template.spec.containers: must hold
  at least one container
spec.coordinated.collector.template.metadata.labels["diengine/pod"]: "x": is written by the
  operator for each pod; leave it out
(coordinated.replicas=[{name: a}]) spec.coordinated.replicas[0].role: "coordinator": must be one of
  collector, learner, ddp-learner, aggregator
(coordinated.replicas=[{name: a, role: collector}, {role: collector}])
  spec.coordinated.replicas[1].name: "a": is the name of another replica already
(coordinated.replicas=[{name: a, role: learner, resources: {cpu: much}}])
  spec.coordinated.replicas[0].resources: an object: cpu must be a quantity, such as 2, 500m or
  1.5Gi
(coordinated.replicas=[{name: c, role: collector}, {name: a, role: ddp-learner}])
  spec.coordinated.replicas[1].aggregator: "c": must be the name of an aggregator among the replicas
(coordinated.replicas=[{name: a, role: collector}]) spec.coordinated.replicas[0].resources: []: must
  be an object of quantities
(coordinated.replicas=[{name: a, role: ddp-learner}]) spec.coordinated.replicas[0].aggregator: must
  be the name of an aggregator among the replicas
(coordinated.replicas=[{name: a, role: collector}]) spec.coordinated.replicas[0].aggregator: "b":
  only a ddp-learner has one
metadata.name: "1st": must begin with a letter: each pod has a Service of its own name
""",
)
PORTS = [{"name": f"p{port}", "port": port} for port in range(1, 18)]
LONG = "x" * 4097
TOO_MUCH = {
    "spec.tasks: a list of 65: must hold at most 64 tasks": job(
        *(task("none", name=f"t{index}") for index in range(65))
    ),
    'spec.scheduling.provisioningClassName: "a": a ProvisioningRequest has 32 groups of pods at '
    "most": job(
        *(task("none", name=f"t{index}") for index in range(33)),
        scheduling={"provisioningClassName": "a"},
    ),
    f'spec.group: "{"x" * 77}...": must be at most 253 characters long': job(group=LONG[:254]),
    "spec.tasks[0].service.ports: a list of 17: must hold at most 16 ports": job(
        task(service={"ports": PORTS})
    ),
    "spec.tasks[0].ports: a list of 17: must hold at most 16 ports": job(
        task(ports=[{"name": port["name"]} for port in PORTS])
    ),
    "spec.tasks[0].nodeCheck.command: a list of 65: must hold at most 64 arguments": job(
        task(nodeCheck={"command": ["a"] * 65})
    ),
    f'spec.tasks[0].nodeCheck.command[0]: "{"x" * 77}...": must be at most 4096 characters long': (
        job(task(nodeCheck={"command": [LONG]}))
    ),
    "spec.failurePolicy.rules: a list of 33: must hold at most 32 rules": job(
        failurePolicy={"rules": [{"tasks": ["learner"]}] * 33}
    ),
    "spec.tasks[0].leaderTemplatePatch: an object: may have 16384 characters": leader(
        {"metadata": {"annotations": {"a": LONG * 4}}}
    ),
}


@pytest.mark.parametrize("good", [job(), ALMOST_ALL, coordinated_job()])
def test_the_job_around_a_wrong_value_is_good(good: Job) -> None:
    assert validate_job(good) == []


@pytest.mark.proves("dijob.md#spec-tasks/name-dns-label")
@pytest.mark.parametrize(
    ("message", "bad"),
    [*OF_A_JOB, *OF_A_TASK, *OF_A_FULL_JOB, *OF_A_LEADER, *BESIDE_A_COORDINATOR, *TOO_MUCH.items()],
)
def test_a_wrong_value_is_refused_with_field_value_and_rule(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]
