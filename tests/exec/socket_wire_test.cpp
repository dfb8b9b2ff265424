// Messages over TCP between processes that are threads here, each with a wire of its own: they meet
// by a file as processes do.
// SPDX-License-Identifier: Apache-2.0
#include "exec/socket/socket_wire.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>

#include "exec/processes/process_group.hpp"
#include "exec/socket/rendezvous.hpp"
#include "exec/socket/rendezvous_file.hpp"
#include "plan/words/error.hpp"
#include "tests/exec/tiny.hpp"

namespace weir {
namespace {

using namespace std::chrono_literals;

std::filesystem::path meeting_place() {
  static std::atomic<int> next{0};
  return std::filesystem::temp_directory_path() /
         ("weir-meet-" + std::to_string(::getpid()) + "-" + std::to_string(next++));
}

// Calls `act` in each of `count` threads, each with the connections of one process.
void in_processes(int count, const std::function<void(std::unique_ptr<SocketWire>)>& act) {
  const std::filesystem::path file = meeting_place();
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      act(std::make_unique<SocketWire>(rendezvous({file, index, count}),
                                       SocketWire::Options{index}));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(std::filesystem::exists(file));
}

void finish(SocketWire& wire, Wire::Request request) {
  while (!wire.done(request)) {
    wire.progress();
    wire.rest(1ms);
  }
}

Wire::Arrival next_arrival(SocketWire& wire, Channel channel) {
  for (;;) {
    wire.progress();
    if (const auto there = wire.arrival(channel)) return *there;
    wire.rest(1ms);
  }
}

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// Three messages to each of two others, on two tags and two channels; asked for in another order
// than they were sent.
TEST(SocketWire, MessagesOfOneTagAndChannelArriveInOrder) {
  in_processes(3, [](std::unique_ptr<SocketWire> wire) {
    const std::vector<std::string> texts{"first", "second", "third", "other"};
    std::vector<std::vector<std::byte>> letters;
    for (const std::string& text : texts)
      letters.push_back(bytes_of(text + std::to_string(wire->index())));
    std::vector<Wire::Request> sends;
    for (int to = 0; to < 3; ++to) {
      if (to == wire->index()) continue;
      sends.push_back(wire->start_send(to, Channel::messages, 7, letters[0]));
      sends.push_back(wire->start_send(to, Channel::messages, 8, letters[1]));
      sends.push_back(wire->start_send(to, Channel::messages, 7, letters[2]));
      sends.push_back(wire->start_send(to, Channel::barriers, 7, letters[3]));
    }
    for (int from = 0; from < 3; ++from) {
      if (from == wire->index()) continue;
      const auto receive = [&](Channel channel, int tag, const std::string& text) {
        const std::vector<std::byte> expected = bytes_of(text + std::to_string(from));
        std::vector<std::byte> got(expected.size());
        finish(*wire, wire->start_receive(from, channel, tag, got));
        EXPECT_EQ(got, expected);
      };
      receive(Channel::barriers, 7, "other");
      receive(Channel::messages, 8, "second");
      receive(Channel::messages, 7, "first");
      receive(Channel::messages, 7, "third");
    }
    for (const Wire::Request send : sends) finish(*wire, send);
    wire->leave();
  });
}

// Both send more than connections hold before either reads: whoever waits for his own send also
// reads.
TEST(SocketWire, LargeMessagesCross) {
  in_processes(2, [](std::unique_ptr<SocketWire> wire) {
    const std::size_t size = (std::size_t{24} << 20) + 3;
    std::vector<std::byte> out(size), in(size);
    for (std::size_t i = 0; i < size; ++i) {
      out[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(wire->index())) >> 3);
    }
    const Wire::Request send = wire->start_send(1 - wire->index(), Channel::messages, 0, out);
    finish(*wire, send);
    finish(*wire, wire->start_receive(1 - wire->index(), Channel::messages, 0, in));
    bool right = true;
    for (std::size_t i = 0; i < size; ++i) {
      right = right && in[i] == static_cast<std::byte>(
                                    (i * 7 + static_cast<std::size_t>(1 - wire->index())) >> 3);
    }
    EXPECT_TRUE(right);
    wire->leave();
  });
}

// A message on an edge that nobody takes does not hold up the word of a failure behind it; taken
// late, it is whole.
TEST(SocketWire, WordPassesAMessageThatNobodyTakes) {
  in_processes(2, [](std::unique_ptr<SocketWire> wire) {
    std::vector<std::byte> message(std::size_t{8} << 20, std::byte{0x5a});
    if (wire->index() == 0) {
      std::vector<std::byte> word = bytes_of("word");
      const Wire::Request first = wire->start_send(1, Channel::edges, 3, message);
      finish(*wire, wire->start_send(1, Channel::control, 1, word));
      finish(*wire, first);
    } else {
      const Wire::Arrival word = next_arrival(*wire, Channel::control);
      EXPECT_EQ(word.bytes, 4U);
      const Wire::Arrival held = next_arrival(*wire, Channel::edges);
      EXPECT_EQ(held.tag, 3);
      std::vector<std::byte> got(held.bytes);
      finish(*wire, wire->take(Channel::edges, got));
      EXPECT_EQ(got, message);
    }
    wire->leave();
  });
}

TEST(SocketWire, AnEndWithoutGoodbyeIsSeen) {
  in_processes(3, [](std::unique_ptr<SocketWire> wire) {
    if (wire->index() == 2) return;  // its connections close
    while (!wire->gone(2)) {
      wire->progress();
      wire->rest(1ms);
    }
    EXPECT_FALSE(wire->gone(1 - wire->index()));
    // Nothing that is sent there harms.
    static_cast<void>(wire->start_send(2, Channel::messages, 0, {}));
    wire->leave();
    EXPECT_FALSE(wire->gone(1 - wire->index()));
  });
}

TEST(SocketWire, AMessageOfAnotherSizeFailsTheRun) {
  in_processes(2, [](std::unique_ptr<SocketWire> wire) {
    std::vector<std::byte> four(4), five(5);
    if (wire->index() == 0) {
      finish(*wire, wire->start_send(1, Channel::messages, 0, four));
    } else {
      EXPECT_THROW(finish(*wire, wire->start_receive(0, Channel::messages, 0, five)), RunFailed);
    }
    wire->leave();
  });
}

// Counts of bytes are 64 bits wide everywhere: 2^31 + 5 of them arrive.
TEST(LongSocketWire, AMessageMayBeLargerThanAnIntCounts) {
  in_processes(2, [](std::unique_ptr<SocketWire> wire) {
    std::vector<std::byte> message((std::size_t{1} << 31) + 5);
    const std::vector<std::size_t> marked{0, (std::size_t{1} << 31) - 1, std::size_t{1} << 31,
                                          message.size() - 1};
    if (wire->index() == 0) {
      for (const std::size_t place : marked) message[place] = std::byte{0x77};
      finish(*wire, wire->start_send(1, Channel::edges, 0, message));
    } else {
      EXPECT_EQ(next_arrival(*wire, Channel::edges).bytes, message.size());
      finish(*wire, wire->take(Channel::edges, message));
      for (const std::size_t place : marked) EXPECT_EQ(message[place], std::byte{0x77});
    }
    wire->leave();
  });
}

// Process 2 fails, the others wait for a message that never comes: all end alike, and process 0
// alone says it.
TEST(ProcessGroup, OneFailureIsOneEnding) {
  std::atomic<int> spoken{0};
  in_processes(3, [&](std::unique_ptr<SocketWire> wire) {
    const int index = wire->index();
    ProcessGroup group(std::move(wire), {10s, [&](const std::string&) {
                                           EXPECT_EQ(index, 0);
                                           ++spoken;
                                         }});
    std::vector<std::byte> never(1);
    Ending ending;
    if (index == 2) {
      group.barrier();
      ending = group.conclude(Ending{3, "there is no such file"});
    } else {
      const auto wait = [&] {
        group.barrier();
        group.wait(group.start_receive(2, 1, never));
      };
      EXPECT_THROW(wait(), Transport::Stopped);
      ending = group.conclude({});
    }
    EXPECT_EQ(ending.exit_code, 6);
    EXPECT_EQ(ending.line, "process 2 on " + group.place(2).host + ": there is no such file");
  });
  EXPECT_EQ(spoken, 1);
}

TEST(Rendezvous, TheFileSaysWhatItsReaderNeeds) {
  Greeting leader = own_greeting(0, 4, 40123);
  leader.run = {0, 1, 0x7f, 0xff};
  const auto read = parse_rendezvous(to_text(leader));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->run, leader.run);
  EXPECT_EQ(read->count, 4);
  EXPECT_EQ(read->port, 40123U);
  EXPECT_EQ(read->kernel, leader.kernel);
  EXPECT_EQ(read->host, leader.host);
  EXPECT_EQ(read->addresses, leader.addresses);
}

TEST(Rendezvous, WhatIsNoSuchFileIsTold) {
  const std::string good = to_text(own_greeting(0, 2, 1));
  EXPECT_TRUE(parse_rendezvous(good));
  EXPECT_FALSE(parse_rendezvous(""));
  EXPECT_FALSE(parse_rendezvous("{\"schema\": \"weir.plan/1\"}\n"));
  EXPECT_FALSE(parse_rendezvous(good + "port 65536\n"));
  EXPECT_FALSE(parse_rendezvous(good + "run 12\n"));
  EXPECT_FALSE(parse_rendezvous(good + "kernel xyz\n"));
  EXPECT_FALSE(parse_rendezvous(good + "colour blue\n"));
  EXPECT_FALSE(parse_rendezvous(good + "\n"));
  EXPECT_FALSE(parse_rendezvous(good + "host " + std::string(64, 'h') + "\n"));
}

}  // namespace
}  // namespace weir
