"""JupyterHub for a class: on one server (`make hub`), or on a cluster with Slurm (slurm.py)."""
