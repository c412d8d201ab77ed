#include <algorithm>
#include <limits>
#include <memory>

#include "check.h"
#include "fake_method.h"
#include "speech_decoder.h"

namespace kz {
namespace {

using test::FakeMethod;

constexpr std::size_t kGroups = 2;
constexpr std::size_t kCodebook = 10;
constexpr std::size_t kChunk = 4;
constexpr std::size_t kSamples = 3;

const SpeechDecoderSizes kSizes{kGroups, kCodebook, kChunk, kSamples, 24000};

TensorSpec tensor(ElementType type, std::vector<int32_t> sizes) {
  TensorSpec spec;
  spec.type = type;
  spec.sizes = std::move(sizes);
  return spec;
}

template <typename Code>
void sum_codes(FakeMethod& method) {
  const auto* codes = static_cast<const Code*>(method.bound_inputs[0].data);
  const auto frames = static_cast<std::size_t>(method.bound_inputs[0].sizes[2]);
  float sum = method.input(1)[0];
  for (std::size_t frame = 0; frame < frames; ++frame) {
    for (std::size_t group = 0; group < kGroups; ++group) {
      sum += float(group + 1) * float(codes[group * frames + frame]);
    }
    method.output(0)[frame] = sum;
  }
  method.output(1)[0] = sum + 1.0f;  // a frame of zeros changes the state, too
}

/// Codes to their running sum, which is the state.
std::unique_ptr<FakeMethod> summing(ElementType type) {
  auto method = std::make_unique<FakeMethod>(
      std::vector<TensorSpec>{tensor(type, {1, int32_t(kGroups), int32_t(kChunk)}), tensor(ElementType::Float32, {1})},
      std::vector<TensorSpec>{tensor(ElementType::Float32, {1, 1, int32_t(kChunk), 1}), tensor(ElementType::Float32, {1})});
  method->work = type == ElementType::Int64 ? sum_codes<int64_t> : sum_codes<int32_t>;
  return method;
}

/// Values to samples; each value also sounds in the samples of the one behind it.
std::unique_ptr<FakeMethod> sounding() {
  auto method = std::make_unique<FakeMethod>(
      std::vector<TensorSpec>{tensor(ElementType::Float32, {1, 1, int32_t(kChunk), 1}), tensor(ElementType::Float32, {1})},
      std::vector<TensorSpec>{tensor(ElementType::Float32, {1, int32_t(kChunk * kSamples)}), tensor(ElementType::Float32, {1})});
  method->work = [](FakeMethod& fake) {
    float last = fake.input(1)[0];
    for (std::size_t frame = 0; frame < kChunk; ++frame) {
      const float value = fake.input(0)[frame];
      for (std::size_t sample = 0; sample < kSamples; ++sample) {
        fake.output(0)[frame * kSamples + sample] = (value + last / 2 + float(sample)) / 1024;
      }
      last = value;
    }
    fake.output(1)[0] = last;
  };
  return method;
}

std::vector<std::unique_ptr<Method>> chain(ElementType type = ElementType::Int32) {
  std::vector<std::unique_ptr<Method>> methods;
  methods.push_back(summing(type));
  methods.push_back(sounding());
  return methods;
}

std::unique_ptr<SpeechDecoder> make_chain(ElementType type = ElementType::Int32) {
  return std::move(SpeechDecoder::create(kSizes, chain(type), true).value());
}

std::vector<int16_t> codes_of(std::size_t frames) {
  std::vector<int16_t> codes;
  for (std::size_t index = 0; index < frames * kGroups; ++index) {
    codes.push_back(int16_t((7 * index + 3) % kCodebook));
  }
  return codes;
}

std::vector<float> decode(SpeechDecoder& decoder, const std::vector<int16_t>& codes, std::size_t piece) {
  std::vector<float> audio;
  const std::size_t frames = codes.size() / kGroups;
  for (std::size_t first = 0; first < frames; first += piece) {
    const std::size_t count = std::min(piece, frames - first);
    const std::vector<int16_t> part(codes.begin() + std::ptrdiff_t(first * kGroups),
                                    codes.begin() + std::ptrdiff_t((first + count) * kGroups));
    std::vector<float> samples(count * kSamples);
    CHECK(decoder.decode(part, samples).ok());
    audio.insert(audio.end(), samples.begin(), samples.end());
  }
  return audio;
}

}  // namespace

TEST(chunks_of_fixed_length_give_any_number_of_frames) {
  const std::vector<int16_t> codes = codes_of(23);
  auto decoder = make_chain();
  const std::vector<float> whole = decode(*decoder, codes, codes.size());
  CHECK(whole[22 * kSamples] > whole[0]);
  for (const std::size_t piece : {1, 2, 3, 4, 5, 7, 9}) {
    decoder->reset();
    CHECK_EQUAL(decode(*decoder, codes, piece), whole);
  }
}

TEST(frames_behind_a_chunk_that_is_not_full_are_not_heard) {
  auto decoder = make_chain();
  const std::vector<int16_t> codes = codes_of(6);
  const std::vector<float> whole = decode(*decoder, codes, 6);
  decoder->reset();
  CHECK_EQUAL(decode(*decoder, {codes.begin(), codes.begin() + 5 * kGroups}, 5),
              (std::vector<float>{whole.begin(), whole.begin() + 5 * kSamples}));
}

TEST(codes_of_either_width_are_taken) {
  auto narrow = make_chain(ElementType::Int32);
  auto wide = make_chain(ElementType::Int64);
  CHECK_EQUAL(decode(*narrow, codes_of(9), 9), decode(*wide, codes_of(9), 9));
}

TEST(a_method_that_takes_fewer_frames_is_given_no_more) {
  std::vector<std::unique_ptr<Method>> methods;
  auto* method = new FakeMethod({tensor(ElementType::Int64, {1, int32_t(kGroups), int32_t(kChunk)})},
                                {tensor(ElementType::Float32, {1, int32_t(kChunk * kSamples)})});
  methods.emplace_back(method);
  auto decoder = SpeechDecoder::create(kSizes, std::move(methods), false);
  REQUIRE(decoder.ok());
  CHECK_EQUAL(decoder.value()->state_count(), std::size_t{0});
  std::vector<float> audio(6 * kSamples);
  CHECK(decoder.value()->decode(codes_of(6), audio).ok());
  CHECK_EQUAL(method->bound_inputs[0].sizes, (std::vector<int32_t>{1, int32_t(kGroups), 2}));
}

TEST(an_error_forgets_the_frames_before) {
  auto methods = chain();
  auto* sound = static_cast<FakeMethod*>(methods[1].get());
  auto decoder = SpeechDecoder::create(kSizes, std::move(methods), true);
  REQUIRE(decoder.ok());
  const std::vector<int16_t> codes = codes_of(5);
  const std::vector<float> whole = decode(*decoder.value(), codes, 5);
  std::vector<float> audio(kSamples);
  const std::vector<int16_t> bad{1, int16_t(kCodebook)};
  CHECK_CONTAINS(decoder.value()->decode(bad, audio).error().message, "code 10 of frame 0, codebook 1 is not between 0 and 9");
  CHECK_EQUAL(decode(*decoder.value(), codes, 5), whole);
  sound->failure = make_error(ErrorCode::ExecutionFailed, "broken");
  CHECK_EQUAL(decoder.value()->decode({codes.data(), kGroups}, audio).error().message, "broken");
  sound->failure = {};
  CHECK_EQUAL(decode(*decoder.value(), codes, 5), whole);
}

TEST(samples_that_are_not_finite_are_named) {
  auto methods = chain();
  static_cast<FakeMethod*>(methods[1].get())->work = [](FakeMethod& fake) {
    fake.output(0)[4] = std::numeric_limits<float>::infinity();
  };
  auto decoder = SpeechDecoder::create(kSizes, std::move(methods), true);
  REQUIRE(decoder.ok());
  std::vector<float> audio(2 * kSamples);
  const Status status = decoder.value()->decode(codes_of(2), audio);
  REQUIRE(!status.ok());
  CHECK(status.error().code == ErrorCode::NonFiniteAudio);
  CHECK_CONTAINS(status.error().message, "4 samples into its chunk");
}

TEST(methods_that_do_not_fit_are_refused) {
  const auto refused = [](std::vector<std::unique_ptr<Method>> methods) {
    const auto decoder = SpeechDecoder::create(kSizes, std::move(methods), true);
    return !decoder.ok() && decoder.error().code == ErrorCode::LoadFailed;
  };
  CHECK(refused({}));
  auto methods = chain();
  methods.pop_back();  // the last one does not give audio
  CHECK(refused(std::move(methods)));
  methods = chain(ElementType::Float32);
  CHECK(refused(std::move(methods)));
  methods = chain();
  std::swap(methods[0], methods[1]);
  CHECK(refused(std::move(methods)));
  methods = chain();
  methods.push_back(std::make_unique<FakeMethod>(
      std::vector<TensorSpec>{tensor(ElementType::Float32, {1, int32_t(kChunk * kSamples)}), tensor(ElementType::Float32, {1})},
      std::vector<TensorSpec>{tensor(ElementType::Float32, {1, int32_t(kChunk * kSamples)})}));  // a state gets lost
  CHECK(refused(std::move(methods)));
}

}  // namespace kz
