#!/bin/sh
# Let named variables cross into a Singularity (or Apptainer) container that starts with --cleanenv:
#
#     pass_environment.sh NAME ... -- singularity exec --cleanenv ...
#
# Values are read here, where the task runs: Slurm sets some of them only there, and on a command
# line anyone could read them. A name that ends in * stands for all that begin so.
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    case $1 in
    *\*) names=$(env | sed -n "s/^\(${1%\*}[A-Za-z0-9_]*\)=.*/\1/p") ;;
    *) names=$1 ;;
    esac
    shift
    for name in $names; do
        eval "is_set=\${$name+yes}"
        if [ -n "$is_set" ]; then
            eval "export SINGULARITYENV_$name=\"\$$name\" APPTAINERENV_$name=\"\$$name\""
        fi
    done
done
shift
exec "$@"
