# SPDX-License-Identifier: Apache-2.0
"""Workloads of runs: which phases they have, and what these report.

A run record contains the name of its workload as a fact, unless it is TPCx-HS.
Records of different workloads are never compared.
"""

from dataclasses import dataclass

from hvstack.results.benchmark import KIT_PHASES, PHASES

#: Fact of a record that contains the name of its workload.
FACT = 'workload'


@dataclass(frozen=True)
class ReportedValue:
    """Value that the program of a phase reports.

    :param measure: name of the measure in the claims of a study.
    :param phase: name of the phase.
    :param unit: unit of the value.
    """

    measure: str
    phase: str
    unit: str


@dataclass(frozen=True)
class WorkloadType:
    """Phases of the runs of a workload.

    :param name: name in studies and in run records.
    :param title: name of the program.
    :param phases: all phases of a run, in order.
    :param jobs: phases that are Hadoop jobs, in order.
    :param generator: phase that generates the input of a sort; empty without
        a sort.
    :param sorter: phase that sorts; empty without a sort.
    :param reported: values that the programs of phases report.
    :param has_data: whether a run writes a data set, whose size a rate is
        about.
    :param is_on_nodes: whether its programs run on the workers, without
        Hadoop.
    """

    name: str
    title: str
    phases: tuple[str, ...]
    jobs: tuple[str, ...]
    generator: str = ''
    sorter: str = ''
    reported: tuple[ReportedValue, ...] = ()
    has_data: bool = True
    is_on_nodes: bool = False

    @property
    def timed_phases(self) -> tuple[str, ...]:
        """Phases that are shown with their seconds."""
        return self.jobs or self.phases

    @property
    def has_rate(self) -> bool:
        """Whether a run has a rate: data by time.

        Other programs report rates of their own, and their time says little:
        the operations of NNBench begin at a common time.
        """
        return self.has_data and not self.is_on_nodes

    @property
    def uses_page_cache(self) -> bool:
        """Whether memory can hold the data, so that disks are not measured.

        fio reads and writes past the page cache (direct=1).
        """
        return self.has_data and not self.is_on_nodes

    @property
    def main_job(self) -> str:
        """Phase whose job has the settings of the workload."""
        return self.sorter or self.jobs[-1]

    def find_reported(self, measure: str) -> ReportedValue | None:
        """Return the reported value of a measure; None without any."""
        for value in self.reported:
            if value.measure == measure:
                return value
        return None


TPCX_HS = WorkloadType(
    *('tpcx-hs', 'TPCx-HS', PHASES, KIT_PHASES, 'HSGen', 'HSSort')
)
#: TeraGen and TeraSort without checks of the data, as the papers measured.
TERASORT = WorkloadType(
    name='terasort',
    title='TeraSort',
    phases=('TeraGen', 'TeraSort'),
    jobs=('TeraGen', 'TeraSort'),
    generator='TeraGen',
    sorter='TeraSort',
)
#: TestDFSIO reports the rate of a map task.
TESTDFSIO = WorkloadType(
    name='testdfsio',
    title='TestDFSIO',
    phases=('TestDFSIO write', 'TestDFSIO read'),
    jobs=('TestDFSIO write', 'TestDFSIO read'),
    reported=(
        ReportedValue('write throughput', 'TestDFSIO write', 'MB/s'),
        ReportedValue('read throughput', 'TestDFSIO read', 'MB/s'),
    ),
)
#: NNBench loads the NameNode with operations on empty files.
NNBENCH = WorkloadType(
    name='nnbench',
    title='NNBench',
    phases=('NNBench create', 'NNBench open', 'NNBench delete'),
    jobs=('NNBench create', 'NNBench open', 'NNBench delete'),
    reported=(
        ReportedValue('create rate', 'NNBench create', '1/s'),
        ReportedValue('open rate', 'NNBench open', '1/s'),
        ReportedValue('delete rate', 'NNBench delete', '1/s'),
    ),
    has_data=False,
)
#: MRBench runs a small job several times.
MRBENCH = WorkloadType(
    name='mrbench',
    title='MRBench',
    phases=('MRBench',),
    jobs=('MRBench',),
    reported=(ReportedValue('small job rate', 'MRBench', '1/min'),),
    has_data=False,
)
#: fio on all data disks of all workers at the same time. The size of the data
#: is that of all files together.
FIO = WorkloadType(
    name='fio',
    title='fio',
    phases=('fio write', 'fio read'),
    jobs=(),
    reported=(
        ReportedValue('disk write rate', 'fio write', 'MB/s'),
        ReportedValue('disk read rate', 'fio read', 'MB/s'),
    ),
    is_on_nodes=True,
)
#: The stressor "stream" of stress-ng on all workers at the same time. It is
#: not the benchmark STREAM, whose operations it imitates.
STRESS_NG = WorkloadType(
    name='stress-ng',
    title="stress-ng's stream",
    phases=('stress-ng stream',),
    jobs=(),
    reported=(ReportedValue('memory rate', 'stress-ng stream', 'MB/s'),),
    has_data=False,
    is_on_nodes=True,
)
#: iperf3 between disjoint pairs of hosts at the same time.
IPERF3 = WorkloadType(
    name='iperf3',
    title='iperf3',
    phases=('iperf3',),
    jobs=(),
    reported=(ReportedValue('network rate', 'iperf3', 'Mbit/s'),),
    has_data=False,
    is_on_nodes=True,
)
#: All workloads by name.
TYPES = {
    item.name: item
    for item in (
        *(TPCX_HS, TERASORT, TESTDFSIO, NNBENCH, MRBENCH),
        *(FIO, STRESS_NG, IPERF3),
    )
}
