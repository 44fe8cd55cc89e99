"""Commands about machines: `ddl doctor` and `warm`."""

from ddl.arguments import add_command
from ddl.words import plural


def add(commands):
    """Add the commands to the program's."""
    doctor = add_command(commands, "doctor", _doctor, "what is here, and what to do about what is not")
    doctor.add_argument("--site", metavar="FILE", help="check this site file")
    doctor.add_argument("--submit", action="store_true", help="run two ranks there, too")

    warm = add_command(commands, "warm", _warm, "keep TensorFlow imported, so that local launches take a second")
    warm.add_argument("--stop", action="store_true", help="end what was kept")


def _doctor(arguments):
    from ddl.diagnose.machine import doctor

    report = doctor(site=arguments.site, submit=arguments.submit)
    print(report)
    return 0 if report.ok else 1


def _warm(arguments):
    from ddl.launcher import warm

    if arguments.stop:
        ended = warm.stop()
        print(f"{plural(len(ended), 'template')} ended" if ended else "there is no template")
        return
    print(warm.describe(warm.await_ready()))
