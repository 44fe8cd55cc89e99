"""A stand-in for `singularity` and `docker`: it checks its command line, then runs the command.

Neither can run where the tests do. What the real ones would do with the options is done as far as one process can: a
clean environment that holds only what was named, the working folder, nothing but the bound folders. It is NOT a
container: the file system and the processes are the host's. It records requests in a file next to it, for the test.
"""

import json
import os
import sys
from pathlib import Path

FLAGS = {"--nv", "--cleanenv", "--rm", "--init", "--interactive", "--no-healthcheck"}
VALUES = {"--pwd", "--bind", "--name", "--gpus", "--ipc", "--user", "--workdir", "--volume", "--env", "--shm-size"}


def parse(words):
    """Split the words after ``exec`` or ``run`` into options, image and command."""
    options = {}
    while words and words[0].startswith("-"):
        word, *words = words
        if word in FLAGS:
            options[word] = True
        elif word in VALUES:
            options.setdefault(word, []).append(words.pop(0))
        else:
            sys.exit(f"stand-in: unknown option {word}")
    image, *command = words
    return options, image, command


def environment(program, options):
    """What the container's processes get: the image's own variables and what was let through."""
    image = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
    if program == "docker":
        named = options.get("--env", [])
        assert not any("=" in name for name in named), f"a value on the command line: {named}"
        return image | {name: os.environ[name] for name in named if name in os.environ}
    assert options.get("--cleanenv"), "without --cleanenv all variables cross over"
    crossing = {name: value for name, value in os.environ.items() if name.startswith("SINGULARITYENV_")}
    for name, value in crossing.items():
        assert os.environ[name.replace("SINGULARITYENV_", "APPTAINERENV_")] == value
    return image | {name.removeprefix("SINGULARITYENV_"): value for name, value in crossing.items()}


def check_folders(options, command, variables):
    """See that all that the command names lies in a folder that the container would have."""
    binds = [bind.split(":") for bind in options.get("--bind", []) + options.get("--volume", [])]
    for source, *_ in binds:
        assert Path(source).exists(), f"bound, but not there: {source}"
    inside = [Path(bind[1] if len(bind) > 1 else bind[0]) for bind in binds]
    (folder,) = options.get("--pwd") or options["--workdir"]
    needed = [
        folder,
        *(word for word in command[1:] if word.startswith("/")),
        *(variables[name] for name in ("DDL_RUN_DIR", "DDL_DATA_DIR", "PYTHONPATH") if name in variables),
    ]
    for path in map(Path, needed):
        assert any(path.is_relative_to(bind) for bind in inside), f"not bound: {path}"
    return folder


def main():
    program = Path(sys.argv[0]).name
    verb, *words = sys.argv[1:]
    assert verb == {"docker": "run", "singularity": "exec"}[program], verb
    options, image, command = parse(words)
    variables = environment(program, options)
    folder = check_folders(options, command, variables)
    asked = {"options": options, "image": image, "command": command}
    with open(Path(sys.argv[0]).with_suffix(".jsonl"), "a") as log:
        log.write(json.dumps(asked) + "\n")
    os.chdir(folder)
    os.execvpe(command[0], command, variables)


if __name__ == "__main__":
    main()
