# SPDX-License-Identifier: Apache-2.0
"""Constants of TPCx-HS that a run record must agree with."""

#: Phases of a run, in order.
PHASES = ('HSGen', 'HSDataCheck', 'HSSort', 'HSDataCheck', 'HSValidate')
#: Phases that the log of TPC's kit always has, in order.
KIT_PHASES = ('HSGen', 'HSSort', 'HSValidate')
#: Bytes of a data record, in TPCx-HS as in TeraSort.
RECORD_BYTES = 100
#: Option -g of TPC's kit and the name of its log, by bytes of the data set.
#: 100 GB is for tests only.
KIT_SIZES = {
    10**11: ('1', '100GB'),
    **{
        factor * 10**12: (str(option), f'{factor}TB')
        for option, factor in enumerate(
            (1, 3, 10, 30, 100, 300, 1000, 3000, 10000), start=2
        )
    },
}
