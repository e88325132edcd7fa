//! The terms of the page, for readers who have never heard of queue depth: each is explained at its
//! first use.
//!
//! Every chart has one: what is drawn and how to read it. Its interpretation here is in
//! [`super::reading`].

pub(super) const SUMMARY: &str = "The way in which users of CrystalDiskMark and KDiskMark know a device. SEQ1M reads a \
    file from front to back in pieces of 1 MiB, as when a film is copied; RND4K reads pieces of 4 KiB from places all over \
    it, as data bases do and programs when they start. Q8 keeps eight reads under way at once, Q1 asks for one, \
    waits for it, and asks for the next.";

/// The signs of tables.
pub(super) const SIGNS: &str = "✓ passed every check. ? is unverified: it failed no check, and one that applies could not be \
    made, so nothing shows that the figure is right; it is drawn and used as the others are, and marked. ✗ failed a check: \
    it is shown, and used for nothing but, if it failed those of Little's law alone, for the conclusions about that.";

/// Every word that the page takes for granted from here on.
pub(super) const WORDS: [(&str, &str); 7] = [
    (
        "Block",
        "The piece that a program asks for in one go: here 4 KiB (a page of text) to 1 MiB (a photo). A device hands \
         out whole blocks only, so a program that needs ten bytes waits for a whole one.",
    ),
    ("MB/s", "Bandwidth: bytes per second, in millions, as the makers of devices count them."),
    (
        "IOPS",
        "Requests completed per second (input/output operations per second). Large blocks give few of them and yet \
         more bytes, so the number says nothing without the size of the block.",
    ),
    (
        "Latency",
        "How long one request takes, from asking until the bytes are there. Mean latency is the mean of all of them, in \
         µs: millionths of a second.",
    ),
    ("p99", "The latency that 99 of 100 requests kept to. Only one in a hundred took longer."),
    (
        "Queue depth",
        "How many requests a program has asked for and not yet got; “depth” below, and the number after Q above. A \
         solid-state disk has many chips that work at the same time, and only a program that asks for many things \
         at once keeps them all busy.",
    ),
    (
        "Gate",
        "A check that a measurement has to pass before it is believed: that the device moved the bytes, for instance, \
         and not a cache in memory.",
    ),
];

pub(super) const BASICS: &str = "Four numbers say what a device does, and they were fitted to the measurements: once to those \
    in order, as they were published, and once to those at random places, which are ours. Where they come from is shown \
    chart by chart; lines that are fitted are drawn through random places. One whose interval spans more than a factor of \
    two is left out.";

pub(super) const LATENCY_BLOCK: &str = "Each point is the mean latency of reads of one size, one at a time. To the right \
    the blocks grow, upwards reads take longer; on both axes equal steps are equal factors. A line that begins flat means \
    that a small block costs nearly as much time as a larger one.";

pub(super) const IOPS_BLOCK: &str = "The same reads, counted: how many are done per second. Large blocks take longer, so \
    the line falls to the right.";

pub(super) const BANDWIDTH_BLOCK: &str = "The same reads once more, weighed: reads per second times the size of the \
    block. To the right the line rises: a device that has something to carry for each wait carries more.";

pub(super) const BANDWIDTH_LIMIT: &str = "The dotted line across, B, is what would come if waiting cost nothing; the \
    upright one is the block at which half of B is reached.";

pub(super) const CURVE: &str = "Each point is a depth, the number beside it. To the right a read takes longer, upwards more \
    are done per second: up and to the left is good. At first more depth buys throughput and hardly costs latency; past \
    the bend it buys nothing any more, and all that is added stands in line. The bend is where two limits meet: no program \
    gets more than one request per latency for each that is in flight, and the device has a most that it can do. The depth \
    at which they meet is called N*, the product of the highest throughput and the latency at depth 1. No lesser depth can \
    reach the highest throughput; a device in which requests get into each other's way needs more.";

pub(super) const IOPS_DEPTH: &str = "How many reads are done per second (IOPS) at each depth. While the device has \
    chips to spare, more depth does more; where the line turns level, it is of no use.";

pub(super) const IOPS_LIMIT: &str = "The dashed line is the most that the two limits allow; where the points reach it, \
    nothing is lost.";

pub(super) const LATENCY_DEPTH: &str = "What one read takes at each depth. While the device has chips to spare, the line is \
    level; from where it rises as fast as the depth, everything added only waits.";

pub(super) const BANDWIDTH_DEPTH: &str = "The same reads as bytes per second, to compare with what the device carries in \
    large blocks.";

pub(super) const BLOCK_DEPTH: &str = "Large blocks and many requests at once do the same thing in two ways: they keep bytes \
    under way. Each field is one measurement of random reads: its row is the block, its column the depth, the number the \
    bandwidth. The denser the colour, the more. Follow a row to the right to see what depth does for one block, a column \
    down to see what a larger block does at one depth.";

pub(super) const LITTLE: &str = "There is a law for everything in which something waits, found by J. D. C. Little: the mean \
    number in flight is throughput × mean latency (X·W). If forty people an hour enter a shop and each stays half an \
    hour, twenty are inside. So X·W has to be the depth that was asked for: if it is less, either that many were never \
    in flight, or the latencies leave out a part of the waiting. The chart has X·W ÷ N, N being the depth: 1, \
    the dashed line, is what the law says, and points below it have lost some waiting.\n\n\
    The published study says that its table over depths proves this law. Its own figures show the opposite: from depth \
    32 on its latencies account for half of the requests in flight. What it printed is most likely the time in the \
    device, without the time in the queue of the program. Here every cell is checked against the law twice, with the \
    depth that was asked for and with a count of what was in flight, taken at random moments.";

pub(super) const MIX: &str = "From reads only, on the left, to writes only, on the right, one request at a time: all \
    requests per second, reads and writes together. If reads and writes did not disturb one another, each would take of \
    every second what it takes alone, and the rate of a mix would be the harmonic mean of the two pure rates: the dashed \
    line, which is ours. What is below it is what they cost each other.";

pub(super) const IOPS_MIX: &str = "The same, reads and writes apart. To the right there are fewer of one and more of the \
    other, so the lines cross.";

pub(super) const LATENCY_MIX: &str = "How long a read takes and how long a write takes, in each mix. Level lines mean that \
    they do not disturb one another. A write is often quicker than a read, because a device says that it is done as soon \
    as it is in the device's own memory.";

pub(super) const BANDWIDTH_MIX: &str = "Reads and writes apart as bytes per second: IOPS times 16 KiB.";

pub(super) const NORMALISED_MIX: &str = "The same rates, each divided by its share of the requests: what would be done if \
    there were nothing else. The published study calls it normalised. Level lines that lie together mean that the mix \
    itself costs nothing.";

pub(super) const UNSTATED: &str = "The document gives its commands, and these leave two things open: whether the page cache \
    was passed by, and which engine of fio was used. So the published cells were measured in other ways, too, each once and \
    for half of the time: by threads that read and write one block after another (`pread`, `pwrite`), past the page cache; \
    and through the page cache, which has nothing of the file in it when a cell begins, and each byte once, so that none \
    comes out of memory because it was read before. Through the cache the system reads ahead of a program that reads in \
    order, and takes writes into memory: such writes are those of memory, which the checks say. The marks are those of the \
    tables above.";

pub(super) const ADVERTISED: &str = "The document compares what its SSD is advertised with and what it reached, and says \
    that such speed lasts for a minute or so. What this device is advertised with it does not say: `--rated-read` and \
    `--rated-write` do. Whether its speed lasts is measured with `--long-run`: reads of 1 MiB in order, eight at once, \
    without a pause, and then writes of the same.";

pub(super) const ENDURANCE: &str = "What a drive may write until it is expected to fail, divided by what it holds, can be \
    compared between drives. Where a drive says what was written to it and which share of its life is used, bytes written ÷ share \
    of life used is the endurance to expect, if it goes on as it did.";

pub(super) const SIMULATED: &str = "This is no measurement. The document says that a disk that rotates would show a more \
    logarithmic line; where none is at hand, one is simulated: an arm that moves, platters that turn, bytes that pass below \
    it, with times that are assumed (under `simulated_disk` in the data of this page). No file system takes part in it.";

pub(super) const DISTRIBUTION: &str = "A mean hides the slow ones. These three look closely at one cell, reads of 16 KiB \
    one at a time: how slow the slowest are, how latencies are spread, and whether the device was the same from \
    beginning to end.";

pub(super) const PERCENTILES: &str = "To the right more and more of all reads are counted: 50% is half of them, 99% is \
    p99. The line says what all of these kept to. The steeper it rises at its end, the worse the few that were unlucky.";

pub(super) const HISTOGRAM: &str = "Each column is a range of latencies and says how many reads fell into it. One narrow hill \
    is a device that always takes the same time; a second hill is a second way of being served, such as from a \
    cache of the device.";

pub(super) const TIME_LINE: &str = "Reads done in each second, each round a line. It should be level: a device that falls \
    off has used up a cache or grown hot, and a single dip is something else that used it.";

pub(super) const CHECKS: &str = "A figure is believed when all of these checks pass. X·W ÷ N and X·W ÷ what was \
    seen in flight lie within 3% of 1. The device itself says that as many bytes were read and written as were asked for \
    (0.95 to 1.10 of them; for writes also what the journal of the file system adds beside a light load): \
    fewer means that a cache or compression stood in between. Bandwidth stays below what the \
    link to the device can carry. The busiest thread used less than 0.90 of a processor: above, the tool is what is \
    slow. No thread waited for a processor that other programs used for more than 0.05 of the time, or of the time \
    in which requests were in flight. The run took a second and made a \
    hundred requests, at least. Five ranges of it differ by at most 0.20 of their mean, a line through them rises or \
    falls by at most 0.10, and writing does not fall to less than 0.80 of what it was. A limit that was set for this \
    program is not the reason: less than 0.90 of it was reached. After the last write at most 0.10 of the time is needed \
    until everything is on the device. A dash means that there was nothing to check.";

pub(super) const TABLES: &str = "Each figure is of random places, and the one beside it of the same cell in order, as it \
    was published. The published figures stand further below, beside those in order: they come from another machine.";
