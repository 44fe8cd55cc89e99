"""Grade a notebook: run its cells in one process and its tests in another (`course.grader.grade`).

`grade_notebook` serves `ddl check`, on the attendee's machine, and the instructor's marking, which runs the notebook in
a sandbox. Either way, verdicts are reached where no code of the notebook runs; see `course.grader.serialize`.
"""
