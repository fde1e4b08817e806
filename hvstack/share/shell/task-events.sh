# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
# Prints the topology table, and the events of tasks and ApplicationMasters in
# history files.
# Arguments: topology table; paths of history files in HDFS, which may contain
# wildcards.
# The first event of a task, and the events of attempts that failed, are as
# Hadoop wrote them. The event of an attempt that succeeded has 3 kB, and a job
# of vsphere6 has 112,000 of them: only what hvstack reads is printed.

cat "$1"
shift
hdfs dfs -cat "$@" 2>/dev/null |
    grep -e _ATTEMPT_ -e '"TASK_STARTED"' -e '"AM_STARTED"' |
    LC_ALL=C sed -E '
        /^\{"type":"[A-Z]*_ATTEMPT_STARTED"/ {
            s/,"(trackerName|containerId)":"[^"]*"//g
            s/,"(httpPort|shufflePort)":-?[0-9]+//g
            s/,"(locality|avataar)":\{"string":"[^"]*"\}//g
        }
        /^\{"type":"[A-Z]*_ATTEMPT_FINISHED"/ {
            s/,"displayName":"([^"\\]|\\.)*"//g
            s/,"(clockSplits|cpuUsages|vMemKbytes|physMemKbytes)":\[[^]]*\]//g
            s/\{"name":"((MAP|REDUCE)_INPUT_RECORDS|HDFS_BYTES_(READ|WRITTEN))",/{"counter":"\1",/g
            s/\{"name":"[^"]*","value":-?[0-9]+\},?//g
            s/"counter":/"name":/g
            s/,\]/]/g
            s/\{"name":"[^"]*","counts":\[\]\},?//g
            s/,\]/]/g
        }'
