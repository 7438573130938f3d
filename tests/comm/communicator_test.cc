// SPDX-License-Identifier: Apache-2.0
#include "lumen/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lumen/core/error.h"
#include "mpi_main.h"

namespace lumen::comm {
namespace {

using Bytes = std::vector<std::byte>;

// Around the sizes at which a message gets a second piece or a longer head.
const int64_t kSizes[] = {0, 1, 7, 8, 127, 128, 2029, 2030, 2031, 20000};

Bytes Pattern(int from, int to, int64_t size) {
  Bytes bytes(size);
  for (int64_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(31 * from + 17 * to + i * i / 3 + i);
  }
  return bytes;
}

// Runs with pieces of 1, 7 and 2^30 bytes.
class CommunicatorTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { World()->set_chunk_bytes(GetParam()); }
  void TearDown() override { World()->set_chunk_bytes(int64_t{1} << 30); }
};

TEST_P(CommunicatorTest, AllGatherReturnsEveryRanksBytesInOrder) {
  for (const int64_t size : kSizes) {
    const int64_t mine = size * (World()->rank() % 3) / 2;
    const auto all = World()->AllGather(Pattern(World()->rank(), 99, mine));
    ASSERT_EQ(std::ssize(all), World()->ranks());
    for (int peer = 0; peer < World()->ranks(); ++peer) {
      EXPECT_EQ(all[peer], Pattern(peer, 99, size * (peer % 3) / 2));
    }
  }
}

TEST_P(CommunicatorTest, BroadcastReachesAllFromAnyRoot) {
  for (int root = 0; root < World()->ranks(); ++root) {
    for (const int64_t size : kSizes) {
      Bytes bytes =
          World()->rank() == root ? Pattern(root, 1, size) : Pattern(0, 0, 55);
      World()->Broadcast(root, &bytes);
      EXPECT_EQ(bytes, Pattern(root, 1, size));
    }
  }
}

TEST_P(CommunicatorTest, ExchangeDeliversToEachItsOwn) {
  const int me = World()->rank();
  for (const int64_t size : kSizes) {
    std::vector<Message> outgoing;
    std::vector<int> sources;
    for (int peer = 0; peer < World()->ranks(); ++peer) {
      if (peer == me) continue;
      outgoing.push_back({peer, Pattern(me, peer, size + peer)});
      sources.push_back(peer);
    }
    const auto received = World()->Exchange(std::move(outgoing), sources);
    ASSERT_EQ(received.size(), sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ(received[i].peer, sources[i]);
      EXPECT_EQ(received[i].bytes, Pattern(sources[i], me, size + me));
    }
  }
}

TEST_P(CommunicatorTest, ExchangeMayLeaveRanksOut) {
  // Everyone sends to the last rank only.
  const int last = World()->ranks() - 1;
  std::vector<Message> outgoing;
  std::vector<int> sources;
  if (World()->rank() != last) {
    outgoing.push_back({last, Pattern(World()->rank(), last, 5000)});
  } else {
    for (int peer = 0; peer < last; ++peer) sources.push_back(peer);
  }
  for (const Message& m : World()->Exchange(std::move(outgoing), sources)) {
    EXPECT_EQ(m.bytes, Pattern(m.peer, last, 5000));
  }
}

TEST_P(CommunicatorTest, LongArraysGoPointToPoint) {
  const int64_t size = GetParam() < 100 ? 10000 : 3000001;
  if (World()->rank() == 0) {
    for (int peer = 1; peer < World()->ranks(); ++peer) {
      Bytes bytes(size);
      World()->Receive(peer, bytes);
      EXPECT_EQ(bytes, Pattern(peer, 0, size));
      World()->Send(peer, bytes);
    }
  } else {
    const Bytes bytes = Pattern(World()->rank(), 0, size);
    World()->Send(0, bytes);
    Bytes back(size);
    World()->Receive(0, back);
    EXPECT_EQ(back, bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(ChunkBytes, CommunicatorTest,
                         testing::Values(1, 7, int64_t{1} << 30));

TEST(Communicator, BytesSentCountsPayloadAndSizes) {
  const int others = World()->ranks() - 1;
  const auto sent_by = [](auto&& operation) {
    const int64_t before = World()->bytes_sent();
    operation();
    return World()->bytes_sent() - before;
  };
  EXPECT_EQ(sent_by([] { World()->Barrier(); }), others);
  EXPECT_EQ(sent_by([] { World()->AllGather(Bytes(100)); }), others * 101);
  EXPECT_EQ(sent_by([] { World()->AllGather(Bytes(100000)); }),
            others * 100003);
}

TEST(Communicator, NamesTheHostOfEveryRank) {
  for (int peer = 0; peer < World()->ranks(); ++peer) {
    EXPECT_FALSE(World()->host_of(peer).empty());
  }
  EXPECT_EQ(World()->host(), World()->host_of(World()->rank()));
  EXPECT_THAT(World()->library_version(), testing::ContainsRegex("[0-9]\\."));
}

TEST(Communicator, ReceiveOfAnotherSizeIsAnError) {
  if (World()->ranks() == 1) GTEST_SKIP() << "needs two ranks";
  World()->Barrier();
  if (World()->rank() == 1) World()->Send(0, Bytes(12));
  if (World()->rank() == 0) {
    Bytes bytes(16);
    try {
      World()->Receive(1, bytes);
      FAIL();
    } catch (const CommError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 1"));
      EXPECT_THAT(error.what(), testing::HasSubstr("sent 12 bytes"));
      EXPECT_THAT(error.what(), testing::HasSubstr("expected 16"));
    }
  }
}

}  // namespace
}  // namespace lumen::comm
