"""Every figure of the course: ``from course import plot`` gives each ``plot_*``.

The modules behind them are imported on first use, so that a figure costs only what it needs.
"""

from ddl.lazy import lazy_names

_MODULES = {
    "topology.plot_algorithms": "plot_algorithms",
    "topology.plot_bandwidth": "plot_bandwidth",
    "challenge.plot_challenge": "plot_challenge",
    "convergence.plot_convergence": "plot_convergence plot_noise_scale plot_schedule plot_minima",
    "convergence.plot_critical": "plot_critical_batch plot_differences plot_tasks plot_tuning",
    "gradients.plot_descent": "slider plot_descent plot_training plot_spread plot_best_rate plot_ring",
    "gradients.plot_sgd": "plot_map plot_one_step",
    "gradients.plot_cost": "plot_cost",
    "multi_gpu.plot_efficiency": "plot_scaling plot_step_times plot_payoff plot_timeline",
    "multi_gpu.plot_failures": "plot_lost_share",
    "topology.plot_fit": "plot_fit",
    "topology.plot_hierarchy": "plot_variants",
    "convergence.plot_sharpness": "plot_sharpness",
    "topology.plot_links": "plot_links",
    "topology.plot_topology": "plot_topology",
    "sharding.plot_sharding": "plot_memory plot_cycles plot_overlap plot_communication",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__getattr__, __dir__, __all__ = lazy_names("course", _HOME)
