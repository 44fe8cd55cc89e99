# Every target is thin: what it does is in tools/, the package or the tests. `make` lists them.
STACK ?= $(DDL_STACK)
# What names of one stack's own things end in: nothing on the default stack.
SUFFIX := $(addprefix -,$(filter-out default,$(STACK)))
VENV ?= .venv$(SUFFIX)
LESSON ?=
SIZE ?= smoke
PORT ?= 8888
CLASS ?= class
HOST ?=
ACCOUNTS ?=
BASE ?=
TAG ?= ddl-course$(SUFFIX)
SIF ?= ddl-course$(SUFFIX).sif
CA ?=
BUILDER ?=
COURSE ?= grading/course
FROM ?=
STUDENTS ?=
STUDENT ?=
WHEN ?=
SITE ?=
STRICT ?=
ONLY ?=
MINUTES ?=
TORCH ?=

# The environment's own Python, with its own programs first on the path: horovodrun, jupyter, ddl.
# It takes the shell's place, so that ending `make` ends it.
PY = exec env PATH="$$(cd "$(VENV)/bin" && pwd):$$PATH" "$(VENV)/bin/python"
NO_BROWSER ?= $(if $(DISPLAY)$(WAYLAND_DISPLAY),,1)
ROOT_USER := $(filter 0,$(shell id -u))

# Tests run in three processes on two cores, as one of them often waits; each takes whole files. For the fast tests, a
# third process costs more than it gains: each collects all tests.
PROCESSES = 3
test: PROCESSES = 2
# The fast tests' folders, the longest first, and one launch.
FAST = tests/grading tests/notebooks tests/launch/test_horovod.py tests/unit
PYTEST = mkdir -p build && $(PY) -m pytest --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder --durations=20 \
	--junitxml=build/$@.xml
NO_SKIPS = -p tests.plugins.no_skips
# On the next stack, the full run has those tests on which its TensorFlow has a say; all others hold on the default.
NEXT_TESTS := $(if $(SUFFIX),tests/unit/records tests/unit/training \
	$(addprefix tests/launch/test_,horovod.py launch.py strategies.py train_text.py bug_hunt.py))

# The instructor's commands; grading/README.md goes through an evening with them.
MARKING = export PYTHONPATH="$(CURDIR)/grading:$(CURDIR)/tools"; \
	$(PY) -m marking --course $(call quoted,COURSE)

# A variable's value as one word of a command, whatever characters a folder's name has.
quoted = '$(subst ','\'',$(value $(1)))'

# Neither the user's own packages nor another environment's kernel take the place of this one's.
export PYTHONNOUSERSITE := 1
export DDL_STACK := $(STACK)
export JUPYTER_PREFER_ENV_PATH := 1
# Modules are compiled once: importing Jupyter's from their sources takes each process half as long again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help lab setup update lint test test-all test-nightly test-due run site notebooks question clock check lock reference bench images photograph image sif clean distclean
.PHONY: findings release due hub collect autograde feedback grades formgrader challenge

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1\t\2/p' Makefile | \
		while IFS="$$(printf '\t')" read -r name what; do printf '  make %-12s %s\n' "$$name" "$$what"; done

lab: setup  ## set up, then open JupyterLab at Start_Here.ipynb (PORT=8888, NO_BROWSER=1, ALL=1: all files, STACK=next)
	@$(PY) -m ddl.cli lab --port=$(PORT) $(if $(ALL),--all) \
		$(if $(NO_BROWSER),--no-browser) $(if $(ROOT_USER),--allow-root)

setup: export DDL_TORCH = $(TORCH)
setup:  ## make the environment in .venv (VENV=DIR: elsewhere, TORCH=1: with PyTorch, STACK=next: TensorFlow 2.22); it resumes
	@sh tools/setup.sh "$(VENV)"

update:  ## get the newest release of the course, and keep your answers, your own cells and your files
	@$(PY) -m ddl.cli update
	@$(MAKE) --no-print-directory setup

lint: setup  ## set up, then check layout, types and notebooks (ruff, mypy, tools/lessons.py)
	@$(PY) -m pre_commit run --all-files

test: setup  ## set up, then run the fast tests (STRICT=1: a skipped one is a failure)
	@$(PYTEST) -m "not slow and not nightly" $(FAST) $(if $(STRICT),$(NO_SKIPS))

test-all: TORCH = $(if $(SUFFIX),,1)
test-all: setup  ## set up with PyTorch, then run all but the nightly set; a skipped test is a failure (ONLY=slow)
	@sh tools/debian.sh
	@$(PYTEST) $(NO_SKIPS) -m "not nightly $(if $(ONLY),and $(ONLY))" $(NEXT_TESTS)
	@$(if $(SUFFIX),$(PY) tools/lessons.py run --size smoke 1)

test-nightly: TORCH = 1
test-nightly: setup  ## run the nightly set: the image, a fresh clone, every lesson
	@sh tools/debian.sh
	@$(PYTEST) $(NO_SKIPS) -m nightly

test-due: TORCH = 1
test-due: setup  ## of the slow and the nightly set, run a few and what has changed (MINUTES=: begin none after these)
	@sh tools/debian.sh
	@$(PYTEST) $(NO_SKIPS) -m "slow or nightly" -p tests.plugins.due --due $(if $(MINUTES),--minutes=$(MINUTES))

run: setup  ## execute the lessons into build/ (LESSON=4 for one, SIZE=smoke|reader)
	@$(PY) tools/lessons.py run --size "$(SIZE)" $(LESSON)

site: setup  ## show the executed lessons as a web site, in build/site
	@$(PY) tools/website.py build

notebooks: setup  ## build notebooks/ and Start_Here.ipynb from their one source, lessons/
	@$(PY) tools/lessons.py build

question: setup  ## add a question to a lesson, or check it (LESSON=1, ID=q03_mean)
	@$(PY) tools/question.py "$(LESSON)" $(call quoted,ID)

clock: setup  ## estimate how long a lesson takes (LESSON=1)
	@$(PY) tools/clock.py $(LESSON)

findings:  ## run what findings/ says about other people's libraries, and name what has changed (ONLY=NAME; it downloads, for minutes)
	@failed=; for script in findings/$(or $(ONLY),*).sh; do \
		echo "$$script"; bash "$$script" || failed="$$failed $$script"; \
	done; [ -z "$$failed" ] || { echo "changed, or could not run:$$failed"; exit 1; }

check: setup  ## see that the notebooks agree with their sources
	@$(PY) tools/lessons.py check

release: setup  ## make a lesson's assignment for a class (LESSON=1, STUDENTS=FILE.csv, WHEN='2026-12-01 18:00': due then)
	@$(MARKING) release $(LESSON) $(if $(STUDENTS),--students $(call quoted,STUDENTS)) $(if $(WHEN),--when $(call quoted,WHEN))

due: setup  ## say or set when a lesson is due (LESSON=1, WHEN='2026-12-01 18:00' or none, STUDENT=ada: for her alone)
	@$(MARKING) due $(LESSON) $(if $(WHEN),--when $(call quoted,WHEN)) $(if $(STUDENT),--student $(call quoted,STUDENT))

collect: setup  ## take in hand-ins (LESSON=1, FROM=folder or zip, STUDENTS=FILE.csv)
	@$(MARKING) collect $(LESSON) $(if $(FROM),--from $(call quoted,FROM)) \
		$(if $(STUDENTS),--students $(call quoted,STUDENTS))

autograde: setup  ## mark what is new of a lesson's hand-ins, in a sandbox (LESSON=1, STUDENT=ada: only hers, ALL=1)
	@$(MARKING) autograde $(LESSON) $(if $(STUDENT),--student $(call quoted,STUDENT)) $(if $(ALL),--all)

formgrader: setup  ## open the formgrader, for the written answers (PORT=8888, NO_BROWSER=1)
	@$(MARKING) formgrader --port=$(PORT) \
		$(if $(NO_BROWSER),--no-browser) $(if $(ROOT_USER),--allow-root)

hub: setup  ## start JupyterHub for a class (CLASS=folder, PORT=8000, HOST=ADDRESS, ACCOUNTS=1: the system's own)
	@export PYTHONPATH="$(CURDIR)/grading"; $(PY) -m hub --folder $(call quoted,CLASS) \
		$(if $(HOST),--host "$(HOST)") $(if $(filter-out file,$(origin PORT)),--port "$(PORT)") \
		$(if $(ACCOUNTS),--accounts)

feedback: setup  ## make everyone's feedback, and a zip of it to hand back (LESSON=1)
	@$(MARKING) feedback $(LESSON)

grades: setup  ## write grades.csv (LESSON=1, or all)
	@$(MARKING) grades $(LESSON)

challenge: setup  ## collect, score and mark the challenge's hand-ins (FROM=folder or zip, STUDENTS=FILE.csv); it resumes
	@$(MARKING) challenge $(if $(FROM),--from $(call quoted,FROM)) \
		$(if $(STUDENTS),--students $(call quoted,STUDENTS))

lock: setup  ## pin everything that pyproject.toml's pins bring with them
	@for accelerator in cpu gpu; do \
		suffix="$${accelerator#cpu}"; \
		($(PY) -m uv pip compile pyproject.toml --quiet --no-header --generate-hashes \
			--python-version 3.11 --constraint tools/constraints.txt \
			--extra default --extra "$$accelerator" $${suffix:+--extra nccl} --extra test --extra lint --extra hub --extra site --extra build \
			--output-file "requirements$${suffix:+-$$suffix}.lock") || exit 1; \
	done
	@$(PY) -m uv pip compile pyproject.toml --quiet --no-header --generate-hashes \
		--universal --python-version 3.11 --constraint tools/constraints.txt --override tools/next-overrides.txt \
		--extra next --extra test --extra build --output-file requirements-next.lock

reference: setup  ## record again what the lessons compare with (about nine hours on two cores; ONLY=arms-again)
	@$(PY) tools/reference.py $(if $(ONLY),--only $(ONLY))

bench: setup  ## measure launching and training
	@$(PY) benchmarks/launch_overhead.py
	@$(PY) benchmarks/throughput.py

images: setup  ## draw the diagrams
	@$(PY) images/draw.py

photograph: setup  ## photograph a lesson in JupyterLab while it trains, for the README
	@$(PY) images/photograph.py

image:  ## build the container image for GPUs (BASE=debian:bookworm for CPUs, TAG=NAME, CA=FILE, STACK=next)
	@BASE="$(BASE)" TAG="$(TAG)" CA="$(CA)" BUILDER="$(BUILDER)" STACK="$(STACK)" sh containers/build.sh image

sif:  ## build the same for Apptainer or Singularity (BASE=, SIF=FILE, CA=FILE, STACK=next)
	@BASE="$(BASE)" SIF="$(SIF)" CA="$(CA)" BUILDER="$(BUILDER)" STACK="$(STACK)" sh containers/build.sh sif

clean:  ## delete what was built or executed, but neither runs/ nor the environment
	rm -rf build .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean  ## delete the environment too: runs/ and the user's cache stay
	rm -rf .venv .venv-next source_code/*.egg-info
