"""Tools for attendees: JupyterLab, checks, hints, progress, hand-ins and updates."""
