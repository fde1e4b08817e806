# SPDX-License-Identifier: Apache-2.0
"""Outputs of the programs of a burn-in.

They are written by hand after the documentation and the source of the
programs: fio 3.33 with ``--output-format=json``, stress-ng 0.15, 0.19 and
0.21, iperf3 3.12 with ``--json``, numactl 2.0.16, and TestDFSIO and NNBench
of Hadoop 3. Fields that hvstack does not read are shortened.
"""

FIO = """\
fio: this platform does not support process shared mutexes
{{
  "fio version" : "fio-3.33",
  "timestamp" : 1764064800,
  "time" : "Wed Nov 25 10:00:00 2026",
  "jobs" : [
    {{
      "jobname" : "burn-in",
      "groupid" : 0,
      "error" : {error},
      "eta" : 0,
      "elapsed" : 3,
      "read" : {{
        "io_bytes" : {read},
        "io_kbytes" : 0,
        "bw_bytes" : {read},
        "bw" : 0,
        "iops" : 0.000000,
        "runtime" : 0
      }},
      "write" : {{
        "io_bytes" : {write},
        "io_kbytes" : 0,
        "bw_bytes" : {write},
        "bw" : 0,
        "iops" : 117.431193,
        "runtime" : 2071
      }},
      "usr_cpu" : 0.966184,
      "latency_ms" : {{
        "2" : 0.000000
      }}
    }}
  ],
  "disk_util" : [
    {{
      "name" : "vdb",
      "util" : 95.123457
    }}
  ]
}}
"""
FIO_REFUSED = """\
fio: looks like your file system does not support direct=1/buffered=0
fio: destination does not support O_DIRECT
fio: pid=0, err=22/file:filesetup.c:801, func=open(data), \
error=Invalid argument
"""

STREAM = """\
processes 2
stress-ng: info:  [300] setting to a 10 second run per stressor
stress-ng: info:  [300] dispatching hogs: 2 stream
stress-ng: info:  [301] stream: stressor loosely based on a variant of the \
STREAM benchmark code
stress-ng: info:  [301] stream: do NOT submit any of these results to the \
STREAM benchmark results
stress-ng: info:  [301] stream: Using cache size of 16384K
stress-ng: info:  [301] stream: memory rate: 3000.00 MB read/sec, \
2000.00 MB write/sec, 262.14 Mflop/sec (instance 0)
stress-ng: info:  [302] stream: memory rate: 1500.00 MB read/sec, \
1000.00 MB write/sec, 131.07 Mflop/sec (instance 1)
stress-ng: info:  [300] successful run completed in 10.02s
"""
#: Newer versions name the kind of the Mflop, and may report fewer processes.
STREAM_NEW = """\
processes 4
stress-ng: info:  [301] stream: memory rate: 3000.00 MB read/sec, \
2000.00 MB write/sec, 262.14 double precision Mflop/sec (instance 0)
stress-ng: info:  [300] passed: 4: stream (4)
stress-ng: info:  [300] successful run completed in 10.02 secs
"""
STREAM_SHORT = """\
processes 1
stress-ng: info:  [301] stream: run duration too short to reliably \
determine memory rate
"""

IPERF3 = """\
{{
\t"start":\t{{
\t\t"connected":\t[{{
\t\t\t\t"socket":\t5,
\t\t\t\t"local_host":\t"10.0.0.2",
\t\t\t\t"remote_host":\t"10.0.0.3"
\t\t\t}}],
\t\t"version":\t"iperf 3.12"
\t}},
\t"intervals":\t[],
\t"end":\t{{
\t\t"sum_sent":\t{{
\t\t\t"seconds":\t5.00018,
\t\t\t"bytes":\t625000000,
\t\t\t"bits_per_second":\t{sent},
\t\t\t"retransmits":\t0,
\t\t\t"sender":\ttrue
\t\t}},
\t\t"sum_received":\t{{
\t\t\t"seconds":\t5.00018,
\t\t\t"bits_per_second":\t{received},
\t\t\t"sender":\ttrue
\t\t}}
\t}}
}}
"""
IPERF3_ERROR = """\
{
\t"start":\t{
\t\t"connected":\t[],
\t\t"version":\t"iperf 3.12"
\t},
\t"intervals":\t[],
\t"end":\t{
\t},
\t"error":\t"unable to connect to server: Connection refused"
}
"""

BUSY = """\
100.00 150.00
hashed 1500000000
hashed 1000000000
105.00 151.00
0m0.000s 0m0.010s
0m9.500s 0m0.400s
"""

DFSIO = """\
----- TestDFSIO ----- : write
            Date & time: Wed Nov 25 10:00:00 UTC 2026
        Number of files: 4
 Total MBytes processed: 976
      Throughput mb/sec: 50
Total Throughput mb/sec: 0.02
 Average IO rate mb/sec: 51.2
  IO rate std deviation: 3.1
     Test exec time sec: 38.52

"""
NNBENCH = """\
-------------- NNBench -------------- :
                               Version: NameNode Benchmark 0.4
                           Date & time: 2026-11-25 10:00:00,123

                        Test Operation: create_write
                            Start time: 2026-11-25 09:59:00,0
                           Maps to run: 4
                        Reduces to run: 1
                    Block Size (bytes): 1048576
                        Bytes to write: 0
                    Bytes per checksum: 512
                       Number of files: 500
                    Replication factor: 1
            Successful file operations: 2000

        # maps that missed the barrier: {late}
                          # exceptions: {exceptions}

               TPS: Create/Write/Close: {operations}
Avg exec time (ms): Create/Write/Close: 9.6
            Avg Lat (ms): Create/Write: 6.2
                   Avg Lat (ms): Close: 3.1

                 RAW DATA: AL Total #1: 12400
                 RAW DATA: AL Total #2: 6200
              RAW DATA: TPS Total (ms): 19200
       RAW DATA: Longest Map Time (ms): 4900.0
                   RAW DATA: Late maps: {late}
             RAW DATA: # of exceptions: {exceptions}

"""

NUMACTL = """\
available: 3 nodes (0-2)
node 0 cpus: 0 1 4 5
node 0 size: 15975 MB
node 0 free: 12000 MB
node 1 cpus: 2 3
node 1 size: 16100 MB
node 1 free: 15000 MB
node 2 cpus:
node 2 size: 32000 MB
node 2 free: 31000 MB
node distances:
node   0   1   2
  0:  10  21  17
  1:  21  10  28
  2:  17  28  10
"""


def fio(direction: str, rate: float, error: int = 0) -> str:
    """Return the output of fio with a rate in bytes per second."""
    rates = {'read': 0, 'write': 0, direction: int(rate)}
    return FIO.format(error=error, **rates)


def iperf3(*rates: float) -> str:
    """Return the output of iperf3 for rates in bits per second."""
    return '\n'.join(
        IPERF3.format(sent=1.1 * rate, received=rate) for rate in rates
    )
