#include <string>

#include "check.h"
#include "sha256.h"

namespace kz {
namespace {

std::string hash_of(const std::string& text) {
  Sha256 digest;
  digest.update({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return digest.finish();
}

}  // namespace

// Examples of FIPS 180-4.
TEST(known_answers) {
  CHECK_EQUAL(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_EQUAL(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_EQUAL(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_EQUAL(hash_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(pieces_of_any_size_give_the_same) {
  const std::string text(300, 'x');
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (std::size_t first = 0; first <= text.size(); first += 7) {
    Sha256 digest;
    digest.update({bytes, first});
    digest.update({bytes + first, text.size() - first});
    CHECK_EQUAL(digest.finish(), hash_of(text));
  }
}

TEST(every_length_around_a_block_is_padded_right) {
  for (std::size_t size = 50; size < 70; ++size) {
    Sha256 digest;
    const std::string text(size, 'y');
    for (const char letter : text) {
      const auto byte = static_cast<uint8_t>(letter);
      digest.update({&byte, 1});
    }
    CHECK_EQUAL(digest.finish(), hash_of(text));
  }
}

}  // namespace kz
