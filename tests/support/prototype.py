"""The earlier prototype's public surface, as a table: what drop-in users call, and what they get.

Parameters are written as in a signature. `None`: any.
"""

from __future__ import annotations

PACKAGE = "ray_multicluster_scheduler"
API = f"{PACKAGE}.app.client_api"
COMMON = f"{PACKAGE}.common"

JOB = (
    "entrypoint, runtime_env=None, job_id=None, metadata=None, submission_id=None, "
    "preferred_cluster=None, resource_requirements=None, tags=None"
)
TASK = (
    "func, args=(), kwargs=None, resource_requirements=None, tags=None, name='', "
    "preferred_cluster=None"
)
ACTOR_ASYNC = TASK.replace("func", "actor_class")
ACTOR = ACTOR_ASYNC + ", timeout=300"
WAIT = "submission_ids, check_interval=5, timeout=None"
CONTEXT = [("get_current_cluster_context", ""), ("set_current_cluster_context", "cluster_name")]
BREAKER = "failure_threshold=5, recovery_timeout=60.0"

#: Module, name, parameters.
CALLS = [
    (API, "initialize_scheduler", "lifecycle_manager"),
    (API, "initialize_actor_scheduler", "lifecycle_manager"),
    (API, "initialize_job_scheduler", "lifecycle_manager"),
    (API, "submit_task", TASK),
    (API, "submit_actor", ACTOR),
    (API, "submit_job", JOB),
    (API, "get_job_status", "submission_id, cluster_name=None"),
    (API, "wait_for_all_jobs", WAIT),
    (API, "stop_job", "submission_id, cluster_name"),
    (API, "graceful_shutdown_on_keyboard_interrupt", None),
    (API, "UnifiedScheduler", ""),
    (API, "get_unified_scheduler", ""),
    (API, "initialize_scheduler_environment", "config_file_path=None"),
    (API, "unified_submit_task", TASK),
    (API, "unified_submit_actor", ACTOR),
    (f"{API}.submit_job", "submit_job", JOB),
    (f"{API}.submit_job", "initialize_job_scheduler", "lifecycle_manager"),
    (f"{API}.submit_job", "initialize_scheduler", "task_lifecycle_manager"),
    (f"{API}.submit_job", "update_submitted_job_id", None),
    (f"{API}.submit_job", "get_job_status", "submission_id, cluster_name=None"),
    (f"{API}.submit_job", "get_job_info", "submission_id, cluster_name"),
    (f"{API}.submit_job", "stop_job", "submission_id, cluster_name"),
    (f"{API}.submit_job", "wait_for_all_jobs", WAIT),
    (f"{API}.submit_task", "submit_task", TASK),
    (f"{API}.submit_task", "initialize_scheduler", "lifecycle_manager"),
    (f"{API}.submit_task", "get_task_result", "task_id"),
    (f"{API}.submit_task", "get_task_status", "task_id"),
    *((f"{API}.submit_task", *call) for call in CONTEXT),
    (f"{API}.submit_actor", "submit_actor", ACTOR),
    (f"{API}.submit_actor", "submit_actor_async", ACTOR_ASYNC),
    (f"{API}.submit_actor", "initialize_actor_scheduler", "lifecycle_manager"),
    (f"{API}.submit_actor", "get_actor_result", "actor_id"),
    (f"{API}.submit_actor", "get_actor_status", "actor_id"),
    *((f"{API}.submit_actor", *call) for call in CONTEXT),
    (f"{API}.unified_scheduler", "UnifiedScheduler", ""),
    (f"{API}.unified_scheduler", "get_unified_scheduler", ""),
    (f"{API}.unified_scheduler", "initialize_scheduler_environment", "config_file_path=None"),
    (f"{API}.unified_scheduler", "submit_task", TASK),
    (f"{API}.unified_scheduler", "submit_actor", ACTOR),
    (f"{API}.unified_scheduler", "submit_job", JOB),
    (f"{COMMON}.circuit_breaker", "CircuitBreaker", BREAKER),
    (f"{COMMON}.circuit_breaker", "ClusterCircuitBreakerManager", BREAKER),
    (f"{COMMON}.config", "SchedulerSettings", ""),
    (f"{COMMON}.context_manager", "ClusterContextManager", ""),
    (f"{COMMON}.logging", "configure_logging", "level"),
    (f"{COMMON}.logging", "get_logger", "name"),
    (f"{PACKAGE}.control_plane.config", "ConfigManager", "config_file_path"),
    (f"{PACKAGE}.control_plane.admin_api", "AdminAPI", None),
    (f"{PACKAGE}.main", "main", ""),
    (f"{PACKAGE}.main", "signal_handler", "signum, frame"),
    (f"{PACKAGE}.main", "shutdown_scheduler", ""),
]

#: Module, class, method, parameters.
METHODS = [
    (
        f"{API}.unified_scheduler",
        "UnifiedScheduler",
        "initialize_environment",
        "config_file_path=None",
    ),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "submit_task", TASK),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "submit_job", JOB),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "submit_actor", ACTOR),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "list_clusters", ""),
    (f"{API}.unified_scheduler", "UnifiedScheduler", "cleanup", ""),
    (PACKAGE, "Scheduler", "start", ""),
    (PACKAGE, "Scheduler", "stop", ""),
    (PACKAGE, "Scheduler", "submit_task", TASK),
    (PACKAGE, "Scheduler", "submit_job", JOB),
    (f"{COMMON}.context_manager", "ClusterContextManager", "set_current_cluster", "cluster_name"),
    (f"{COMMON}.context_manager", "ClusterContextManager", "get_current_cluster", ""),
    (f"{COMMON}.context_manager", "ClusterContextManager", "clear_current_cluster", ""),
    (f"{COMMON}.config", "SchedulerSettings", "load", "config_file=None"),
    (f"{COMMON}.config", "SchedulerSettings", "to_dict", ""),
    (f"{PACKAGE}.control_plane.config", "ConfigManager", "get_cluster_configs", ""),
    (f"{PACKAGE}.control_plane.config", "ConfigManager", "get_cluster_config", "name"),
    *(
        (f"{PACKAGE}.control_plane.admin_api", "AdminAPI", f"get_{what}", "")
        for what in ("cluster_status", "queue_status", "health_status", "scheduler_stats")
    ),
]

#: Each record, and its fields in order.
RECORDS = [
    (
        f"{COMMON}.model",
        "TaskDescription",
        "task_id name func_or_class args kwargs resource_requirements tags is_actor "
        "preferred_cluster is_top_level_task runtime_env",
    ),
    (
        f"{COMMON}.model",
        "ClusterMetadata",
        "name head_address dashboard prefer weight runtime_env tags",
    ),
    (
        f"{COMMON}.model",
        "ResourceSnapshot",
        "cluster_name cluster_cpu_usage_percent cluster_mem_usage_percent cluster_cpu_used_cores "
        "cluster_cpu_total_cores cluster_mem_used_mb cluster_mem_total_mb cluster_mem_used_gib "
        "cluster_mem_total_gib node_count timestamp node_stats",
    ),
    (f"{COMMON}.model", "SchedulingDecision", "task_id cluster_name reason"),
    (
        f"{COMMON}.model.job_description",
        "JobDescription",
        "job_id entrypoint runtime_env metadata submission_id preferred_cluster "
        "resource_requirements tags scheduling_status",
    ),
]

#: The errors, and the other names that are no calls.
ERRORS = (
    "SchedulerError",
    "NoHealthyClusterError",
    "TaskSubmissionError",
    "PolicyEvaluationError",
    "ClusterConnectionError",
    "ConfigurationError",
)
NAMES = [
    *((f"{COMMON}.exception", name) for name in ERRORS),
    (f"{COMMON}.circuit_breaker", "CircuitState"),
    (f"{COMMON}.config", "ExecutionMode"),
    (f"{COMMON}.config", "settings"),
    (f"{PACKAGE}.control_plane.config", "DEFAULT_CONFIG"),
]

#: Every existing module.
MODULES = sorted({row[0] for row in [*CALLS, *METHODS, *RECORDS, *NAMES]} - {PACKAGE})

CLUSTER = {
    "name": "str",
    "head_address": "str",
    "dashboard": "str",
    "prefer": "bool",
    "weight": "float",
    "runtime_env": {"env_vars": {"home_dir": "str"}},
    "tags": ["str"],
}
STATUS = {"centos": {"metadata": "ClusterMetadata", "snapshot": "ResourceSnapshot"}}
QUEUE = {"queue_size": "int", "queue_max_size": "int", "is_empty": "bool", "is_full": "bool"}

#: The result of a call, over a pool with one cluster `centos` that does not answer and a queued job
#: `kept`: a type by its name, a list by its first item, a dict by its keys.
RESULTS = [
    ("UnifiedScheduler().initialize_environment()", "Scheduler"),
    ("UnifiedScheduler().list_clusters()", ["str"]),
    ("get_unified_scheduler()", "UnifiedScheduler"),
    ("submit_job('true', submission_id='ended')", "str"),
    ("get_job_status('kept')", "str"),
    ("get_job_info('kept', 'centos')", "JobInfo"),
    ("stop_job('ended', 'centos')", "bool"),
    ("update_submitted_job_id('kept', 'theirs')", "NoneType"),
    ("get_current_cluster_context()", "NoneType"),
    ("ClusterContextManager.get_current_cluster()", "NoneType"),
    ("ConfigManager(path).get_cluster_configs()", ["ClusterMetadata"]),
    ("ConfigManager(path).get_cluster_config('centos')", "ClusterMetadata"),
    ("ConfigManager(path).get_cluster_config('moc')", "NoneType"),
    ("ConfigManager(path).config", {"clusters": [CLUSTER]}),
    ("ConfigManager.DEFAULT_CONFIG", {"clusters": []}),
    ("AdminAPI().get_cluster_status()", STATUS),
    ("AdminAPI('a monitor', queue='a queue').get_queue_status()", QUEUE),
    ("AdminAPI().get_health_status()", {"centos": "str"}),
    (
        "AdminAPI().get_scheduler_stats()",
        {
            "clusters": {"count": "int", "details": STATUS},
            "queue": QUEUE,
            "health": {"centos": "str"},
        },
    ),
    ("settings.EXECUTION_MODE", "ExecutionMode"),
    ("settings.load()", "SchedulerSettings"),
    ("SchedulerSettings().load('no.yaml').to_dict()['RETRY_SLEEP']", "float"),
    ("get_logger('kept')", "Logger"),
    ("configure_logging('INFO')", "NoneType"),
    ("CircuitBreaker().call(len, 'abc')", "int"),
    ("ClusterCircuitBreakerManager().call_cluster('mac', len, 'abc')", "int"),
]
