"""Validation of new and changed DIJobs, and lenient parsing of existing ones.

Validation: `job` and `update` combine the errors of the other modules, each named after what it
checks. Parsing: `lenient` accepts everything that has a meaning.
"""

from di_api.field_error import FieldError, InvalidSpec
from di_api.spec.weight import may_be_too_much, weigh, weight_error
from di_api.validation.companions import foreign_kinds
from di_api.validation.job import MAX_ERRORS, Check, job_errors, unbounded, validate_job
from di_api.validation.job_template import job_template_errors
from di_api.validation.lenient import load_leniently
from di_api.validation.names import MAX_NODE_LISTS, node_list_errors
from di_api.validation.size import pods_per_replica, standby_pods, total_errors
from di_api.validation.task.process_group import scaling_warning
from di_api.validation.task.vacant_indexes import vacant_core, vacant_members, vacant_of_allocator
from di_api.validation.update import update_errors, validate_update

__all__ = [
    "MAX_ERRORS",
    "MAX_NODE_LISTS",
    "Check",
    "FieldError",
    "InvalidSpec",
    "foreign_kinds",
    "job_errors",
    "job_template_errors",
    "load_leniently",
    "may_be_too_much",
    "node_list_errors",
    "pods_per_replica",
    "scaling_warning",
    "standby_pods",
    "total_errors",
    "unbounded",
    "update_errors",
    "vacant_core",
    "vacant_members",
    "vacant_of_allocator",
    "validate_job",
    "validate_update",
    "weigh",
    "weight_error",
]
