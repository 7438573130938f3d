// SPDX-License-Identifier: Apache-2.0
// Messages that are damaged, or come from a rank with another spec: an error
// that names the sender, never a wrong sum or a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "exchange_oracle.h"
#include "lumen/core/error.h"
#include "mpi_main.h"

namespace lumen::comm {
namespace {

using Bytes = std::vector<std::byte>;
using Damage = std::function<void(Bytes*)>;

// The world with damage done to what arrives from others.
class DamagedWorld final : public Communicator {
 public:
  DamagedWorld(Damage damage) : damage_(std::move(damage)) {}  // NOLINT
  int rank() const override { return World()->rank(); }
  int ranks() const override { return World()->ranks(); }
  const std::string& host() const override { return World()->host(); }
  const std::string& host_of(int peer) const override {
    return World()->host_of(peer);
  }
  std::string library_version() const override {
    return World()->library_version();
  }
  void Barrier() override { World()->Barrier(); }
  void Broadcast(int root, Bytes* bytes) override {
    World()->Broadcast(root, bytes);
  }
  std::vector<Bytes> AllGather(std::span<const std::byte> bytes) override {
    return World()->AllGather(bytes);
  }
  std::vector<Message> Exchange(std::vector<Message> outgoing,
                                const std::vector<int>& sources) override {
    auto messages = World()->Exchange(std::move(outgoing), sources);
    for (Message& m : messages) damage_(&m.bytes);
    return messages;
  }
  void Send(int peer, std::span<const std::byte> bytes) override {
    World()->Send(peer, bytes);
  }
  void Receive(int peer, std::span<std::byte> bytes) override {
    World()->Receive(peer, bytes);
  }
  [[noreturn]] void Abort(int exit_code) override {
    World()->Abort(exit_code);
    std::abort();
  }

 private:
  Damage damage_;
};

// The text of the error of one step, the same kind on every rank.
std::string ErrorOf(const Case& c, Damage damage) {
  DamagedWorld world(std::move(damage));
  const sparse::Compute compute{&sparse::Kernels(sparse::DetectIsa()),
                                Parallel(1)};
  for (const ExchangeRow& row : Exchanges()) {
    if (row.type != c.type) continue;
    const auto exchange = row.create(c.Options(), &world, compute);
    for (const int s :
         HostedShards(c.shards, World()->ranks(), World()->rank())) {
      const auto gradient = TestGradient(0, s, c.parameters);
      std::copy(gradient.begin(), gradient.end(),
                exchange->Gradient(s).begin());
      exchange->Add(s, 0);
    }
    try {
      exchange->Reduce([](int, std::span<const float>) {});
    } catch (const CommError& error) {
      World()->Barrier();
      return error.what();
    }
  }
  World()->Barrier();
  return "no error";
}

class ExchangeDamage : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (World()->ranks() == 1) GTEST_SKIP() << "needs two ranks";
    case_.type = GetParam();
  }
  Case case_;
};

TEST_P(ExchangeDamage, TruncatedMessagesNameTheirSender) {
  const std::string error =
      ErrorOf(case_, [](Bytes* bytes) { bytes->pop_back(); });
  const int sender = World()->rank() == 0 ? 1 : 0;
  EXPECT_THAT(error, testing::HasSubstr("rank " + std::to_string(sender) +
                                        " on " + World()->host_of(sender)));
}

TEST_P(ExchangeDamage, MessagesThatAreTooLongAreRefused) {
  EXPECT_THAT(
      ErrorOf(case_, [](Bytes* bytes) { bytes->push_back(std::byte{0}); }),
      testing::HasSubstr("do all ranks run the same spec?"));
}

TEST_P(ExchangeDamage, EmptyMessagesAreRefused) {
  EXPECT_THAT(ErrorOf(case_, [](Bytes* bytes) { bytes->clear(); }),
              testing::HasSubstr("do all ranks run the same spec?"));
}

INSTANTIATE_TEST_SUITE_P(Types, ExchangeDamage, testing::ValuesIn([] {
                           std::vector<std::string> types;
                           for (const ExchangeRow& row : Exchanges()) {
                             types.emplace_back(row.type);
                           }
                           return types;
                         }()));

TEST(ExchangeDamageOfSplit, AnotherValueCodeIsRefused) {
  if (World()->ranks() == 1) GTEST_SKIP() << "needs two ranks";
  EXPECT_THAT(
      ErrorOf(Case(), [](Bytes* bytes) { bytes->at(0) = std::byte{1}; }),
      testing::HasSubstr("another value code; expected int8"));
}

}  // namespace
}  // namespace lumen::comm
