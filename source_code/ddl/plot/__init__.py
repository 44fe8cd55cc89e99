"""Every figure of the course: ``from ddl import plot`` gives each ``plot_*``.

The modules behind them are imported on first use, so that a figure costs only what it needs.
"""

from ddl.lazy import lazy_names

_MODULES = {
    "bandwidth": "plot_bandwidth plot_pairs",
    "challenge": "plot_challenge",
    "classification": "plot_precision_recall plot_overfitting",
    "convergence": "plot_convergence plot_noise_scale plot_schedule plot_batch_size_tradeoff plot_minima",
    "critical": "plot_critical_batch plot_differences plot_tuning",
    "descent": "slider plot_descent plot_training plot_average plot_spread plot_best_rate plot_exchange plot_ring",
    "sgd": "plot_settled plot_map plot_one_step plot_to_target",
    "cost": "plot_cost",
    "efficiency": "plot_scaling plot_step_times plot_payoff plot_timeline",
    "hierarchy": "plot_fade plot_variants",
    "landscape": "plot_slices plot_sharpness",
    "links": "plot_links",
    "prediction": "plot_fit plot_prediction plot_published",
    "race": "plot_algorithms plot_race",
    "strategies": "plot_agreement plot_staleness plot_loss_scaling",
    "topology": "plot_topology",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOME)
