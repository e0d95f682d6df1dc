#!/bin/sh
# Starts a standalone Spark master or worker from the pyspark of this environment, which is the one that Penstock's
# driver has:  penstock-spark master,  penstock-spark worker spark://spark-master:7077
# PENSTOCK_SPARK_SECRET is shared by master, workers and drivers; it goes into a file and never onto a command line.
set -eu
role=${1:?"usage: penstock-spark master | worker ADDRESS"}
SPARK_HOME=$(python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')
SPARK_CONF_DIR=$(mktemp -d)
export SPARK_HOME SPARK_CONF_DIR SPARK_NO_DAEMONIZE=1
umask 077
cat > "$SPARK_CONF_DIR/spark-defaults.conf" <<END
spark.authenticate true
spark.authenticate.secret ${PENSTOCK_SPARK_SECRET:?"set PENSTOCK_SPARK_SECRET"}
END
unset PENSTOCK_SPARK_SECRET
case $role in
    master) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host "$(hostname)" --port 7077 ;;
    worker) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker "${2:?"address of the master"}" ;;
    *) echo "master or worker, not $role" >&2; exit 2 ;;
esac
