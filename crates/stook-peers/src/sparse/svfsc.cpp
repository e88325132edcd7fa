// The same work with svfsc as it is, without Python: built against its published source, given on stdin.
//
// Lines of words: `work KIND BUDGET REPEATS` (a budget of 0 is none), `before FIRST STEP COUNT LEN AROUND` for
// writes before the clock runs, and `thread`, followed by `calls` for each of its lists, all with the same five numbers.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "svf.h"

using Clock = std::chrono::steady_clock;

struct Calls {
    int64_t first, step, count, len, around;
    std::vector<int64_t> at;

    void prepare() {
        for (int64_t number = 0; around != 0 && number < count; ++number) {
            at.push_back(first + static_cast<int64_t>(static_cast<__int128>(number) * step % around));
        }
    }

    template <typename Call>
    void each(Call call) const {
        if (around != 0) {
            for (int64_t position : at) {
                call(position, len);
            }
            return;
        }
        int64_t position = first;
        for (int64_t number = 0; number < count; ++number, position += step) {
            call(position, len);
        }
    }
};

using List = std::vector<Calls>;

struct Work {
    std::string kind;
    size_t budget = 0, repeats = 1;
    List before;
    std::vector<List> threads;
};

static std::vector<char> content(const List &list) {
    int64_t longest = 0;
    for (const auto &calls : list) {
        longest = std::max(longest, calls.len);
    }
    std::vector<char> bytes(longest);
    for (size_t at = 0; at < bytes.size(); ++at) {
        bytes[at] = static_cast<char>(at % 32);
    }
    return bytes;
}

static void write_all(SVFS::SparseVirtualFile &file, const List &list, size_t budget) {
    const auto bytes = content(list);
    for (const auto &calls : list) {
        calls.each([&](int64_t at, int64_t len) {
            file.write(at, bytes.data(), len);
            if (budget != 0) {
                file.lru_punt(budget);
            }
        });
    }
}

static void run(SVFS::SparseVirtualFile &file, const Work &work, const List &list) {
    if (work.kind == "write") {
        return write_all(file, list, work.budget);
    }
    auto out = content(list);
    volatile size_t count = 0;
    for (const auto &calls : list) {
        calls.each([&](int64_t at, int64_t len) {
            if (work.kind == "read") {
                file.read(at, len, out.data());
            } else {
                count = count + file.need(at, len).size();
            }
        });
    }
}

static double once(const Work &work) {
    SVFS::SparseVirtualFile file("peers", 0.0);
    write_all(file, work.before, 0);
    const auto began = Clock::now();
    if (work.threads.size() == 1) {
        run(file, work, work.threads[0]);
    } else {
        std::vector<std::thread> running;
        for (const auto &list : work.threads) {
            running.emplace_back([&] { run(file, work, list); });
        }
        for (auto &one : running) {
            one.join();
        }
    }
    return std::chrono::duration<double>(Clock::now() - began).count();
}

int main() {
    Work work;
    std::string word;
    while (std::cin >> word) {
        if (word == "work") {
            std::cin >> work.kind >> work.budget >> work.repeats;
            continue;
        }
        Calls calls{};
        std::cin >> calls.first >> calls.step >> calls.count >> calls.len >> calls.around;
        calls.prepare();
        if (word == "before") {
            work.before.push_back(calls);
        } else if (word == "thread") {
            work.threads.emplace_back();
        } else {
            work.threads.back().push_back(calls);
        }
    }
    // What takes no time is done more often, as everyone else does it.
    std::vector<double> took;
    double sum = 0;
    while (took.size() < work.repeats || (took.size() < 15 && sum < 0.05)) {
        took.push_back(once(work));
        sum += took.back();
    }
    std::sort(took.begin(), took.end());
    std::cout.precision(9);
    std::cout << took[took.size() / 2] << std::endl;
}
