"""The file list of an attendee: the lessons, what they launch, what they left, and files of one's own."""

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

__all__ = ["ATTENDEES", "AttendeesFiles"]

# Of the course's top level, what somebody who works through it opens.
ATTENDEES = ("Start_Here.ipynb", "notebooks", "source_code", "runs")
MAINTAINERS = (
    *("grading", "tests", "tools", "benchmarks", "build", "containers", "images", "results"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "LICENSE-CC-BY-4.0", "Makefile", "README.md", "environment.yml"),
    *("pyproject.toml", "requirements.lock", "requirements-gpu.lock", "ddl-course.sif"),
)


class AttendeesFiles(AsyncLargeFileManager):
    """Lists the course's top level without what only maintainers need. It can be opened by name: notebooks show it."""

    async def get(self, path, content=True, type=None, **options):
        model = await super().get(path, content, type, **options)
        if content and model["type"] == "directory" and not path.strip("/"):
            listed = [each for each in model["content"] if each["name"] not in MAINTAINERS]
            if any(each["name"] == ATTENDEES[0] for each in listed):  # this is the course's folder
                model["content"] = listed
        return model
