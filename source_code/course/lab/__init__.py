"""What attendees work with: JupyterLab on the course, checks, hints, progress, handing in and updates."""
