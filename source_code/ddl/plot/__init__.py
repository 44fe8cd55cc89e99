"""Every figure of the course: ``from ddl import plot`` gives each ``plot_*``.

The modules behind them are imported on first use, so that a figure costs only what it needs.
"""

from ddl.lazy import lazy_names

_HOME = {
    "plot_bandwidth": "bandwidth",
    "plot_pairs": "bandwidth",
    "plot_challenge": "challenge",
    "plot_precision_recall": "classification",
    "plot_overfitting": "classification",
    "plot_convergence": "convergence",
    "plot_noise_scale": "convergence",
    "plot_schedule": "convergence",
    "plot_batch_size_tradeoff": "convergence",
    "plot_minima": "convergence",
    "plot_best_rates": "critical",
    "plot_critical_batch": "critical",
    "plot_differences": "critical",
    "plot_tuning": "critical",
    "slider": "descent",
    "plot_descent": "descent",
    "plot_training": "descent",
    "plot_average": "descent",
    "plot_spread": "descent",
    "plot_best_rate": "descent",
    "plot_settled": "sgd",
    "plot_map": "sgd",
    "plot_one_step": "sgd",
    "plot_to_target": "sgd",
    "plot_exchange": "descent",
    "plot_ring": "descent",
    "plot_cost": "cost",
    "plot_scaling": "efficiency",
    "plot_step_times": "efficiency",
    "plot_payoff": "efficiency",
    "plot_timeline": "efficiency",
    "plot_fade": "hierarchy",
    "plot_variants": "hierarchy",
    "plot_slices": "landscape",
    "plot_sharpness": "landscape",
    "plot_fit": "prediction",
    "plot_prediction": "prediction",
    "plot_published": "prediction",
    "plot_algorithms": "race",
    "plot_race": "race",
    "plot_agreement": "strategies",
    "plot_staleness": "strategies",
    "plot_loss_scaling": "strategies",
    "plot_topology": "topology",
    "plot_links": "topology",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOME)
