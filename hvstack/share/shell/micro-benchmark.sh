# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Runs a benchmark of Hadoop's own tests as a job, and prints its result.
# Arguments: write, read, write-and-read (write only if no files exist), nnbench
# (create files), nnbench-open, nnbench-delete or mrbench; directory in HDFS;
# number of files or of map tasks; size of a file of TestDFSIO with its unit;
# options of the job. The log of the job goes to the standard error. The variable
# barrier_seconds is the time until the map tasks of NNBench begin together.

set -e
program=$1 base=$2 tasks=$3 size=$4
shift 4
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
work=$(mktemp -d)
trap 'exit 130' HUP INT TERM
trap 'cd /; rm -rf "$work"' EXIT
cd "$work"

# run_dfsio write|read OPTION...
run_dfsio() {
    verb=$1
    shift
    rm -f result
    hadoop org.apache.hadoop.fs.TestDFSIO "$@" \
        -D "test.build.data=$base/TestDFSIO" "-$verb" -nrFiles "$tasks" \
        -size "$size" -resFile "$work/result" >&2
}

case $program in
write | read) run_dfsio "$program" "$@" ;;
write-and-read)
    hadoop fs -test -d "$base/TestDFSIO/io_data" 2>/dev/null ||
        run_dfsio write "$@"
    run_dfsio read "$@"
    ;;
mrbench)
    # As many lines of input as map tasks, so that each of them has one.
    hadoop org.apache.hadoop.mapred.MRBench "$@" -baseDir "$base/MRBench" \
        -numRuns 10 -maps "$tasks" -reduces 1 -inputLines "$tasks" >result
    ;;
*)
    case $program in
    nnbench-open) operation=open_read ;;
    nnbench-delete) operation=delete ;;
    *) operation=create_write ;;
    esac
    # All map tasks begin at this time, which the result has in UTC. Blocks have
    # the smallest size that the NameNode accepts, though the files are empty.
    TZ=UTC hadoop org.apache.hadoop.hdfs.NNBench "$@" -operation "$operation" \
        -maps "$tasks" -reduces 1 -numberOfFiles 500 -bytesToWrite 0 \
        -blockSize 1048576 -bytesPerChecksum 512 \
        -replicationFactorPerFile 1 -baseDir "$base/NNBench" \
        -startTime $(($(date +%s) + ${barrier_seconds:-60})) >&2
    mv NNBench_results.log result
    ;;
esac
cat result
