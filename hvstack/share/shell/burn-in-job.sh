# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Runs a benchmark of Hadoop's own tests as a job, and prints its result.
# Arguments: write, read or nnbench; token of the burn-in; number of files or
# of map tasks; size of a file in MiB.

set -e
program=$1 token=$2 tasks=$3 mib=$4
name=hadoop-mapreduce-client-jobclient
for jar in "/opt/hadoop/$name-tests.jar" \
    "${HADOOP_HOME:-/opt/hadoop}/share/hadoop/mapreduce/$name"-*-tests.jar; do
    [ ! -f "$jar" ] || break
done
[ -f "$jar" ] || {
    echo "$name-tests.jar is not installed" >&2
    exit 1
}
export HADOOP_CLASSPATH="$jar${HADOOP_CLASSPATH:+:$HADOOP_CLASSPATH}"
base=/benchmarks/hvstack-burn-in-$token
work=$(mktemp -d)
trap 'exit 130' HUP INT TERM
trap 'cd /; rm -rf "$work"' EXIT
cd "$work"

# run_class CLASS ARGUMENT...
run_class() {
    class=$1
    shift
    hadoop "$class" -D "mapreduce.job.tags=hvstack-burn-in-$token" "$@" \
        >log 2>&1 || {
        tail -n 5 log >&2
        exit 1
    }
}
# run_dfsio write|read
run_dfsio() {
    rm -f result
    run_class org.apache.hadoop.fs.TestDFSIO \
        -D "test.build.data=$base/TestDFSIO" "-$1" -nrFiles "$tasks" \
        -size "${mib}MB" -resFile "$work/result"
}

case $program in
write) run_dfsio write ;;
read)
    hadoop fs -test -d "$base/TestDFSIO/io_data" 2>/dev/null ||
        run_dfsio write
    run_dfsio read
    ;;
*)
    # All map tasks start at this time. Blocks have the smallest size that the
    # NameNode accepts, though the files are empty.
    run_class org.apache.hadoop.hdfs.NNBench -operation create_write \
        -maps "$tasks" -reduces 1 -numberOfFiles 500 -bytesToWrite 0 \
        -blockSize 1048576 -bytesPerChecksum 512 \
        -replicationFactorPerFile 1 -baseDir "$base/NNBench" \
        -startTime $(($(date +%s) + 60))
    mv NNBench_results.log result
    ;;
esac
cat result
