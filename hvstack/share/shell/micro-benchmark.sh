# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Runs a benchmark of Hadoop's own tests as a job, and prints its result.
# Arguments: write, read, write-and-read (write only if no files exist) or
# nnbench; directory in HDFS; number of files or of map tasks; size of a file of
# TestDFSIO with its unit; options of the job. The log of the job goes to the
# standard error.

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
*)
    # All map tasks start at this time. Blocks have the smallest size that the
    # NameNode accepts, though the files are empty.
    hadoop org.apache.hadoop.hdfs.NNBench "$@" -operation create_write \
        -maps "$tasks" -reduces 1 -numberOfFiles 500 -bytesToWrite 0 \
        -blockSize 1048576 -bytesPerChecksum 512 \
        -replicationFactorPerFile 1 -baseDir "$base/NNBench" \
        -startTime $(($(date +%s) + 60)) >&2
    mv NNBench_results.log result
    ;;
esac
cat result
