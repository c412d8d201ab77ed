#include <cstdio>

#include "check.h"
#include "json.h"
#include "manifest.h"

namespace kz {
namespace {

Json valid() {
  return Json{{"contract", 1},
              {"executorch", KZ_EXECUTORCH_VERSION},
              {"model", {{"hidden_size", 8}, {"name", "tiny"}}},
              {"programs", {{"talker", {{"file", "talker.pte"}}}}},
              {"tables", {{"codec", {{"file", "codec.bin"}, {"dtype", "f16"}, {"rows", {5, 4}}, {"width", 8}}}}},
              {"files", {{{"name", "talker.pte"}, {"bytes", 100}}, {{"name", "codec.bin"}, {"bytes", 144}}}}};
}

Result<Manifest> read_text(const std::string& text) {
  std::FILE* file = std::fopen("manifest.json", "wb");
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
  return Manifest::read(".");
}

std::string refusal(const std::string& pointer, const Json& value) {
  Json json = valid();
  json[Json::json_pointer(pointer)] = value;
  const auto manifest = read_text(dump_json(json));
  return manifest.ok() ? "accepted" : manifest.error().message;
}

}  // namespace

TEST(what_the_runner_needs_is_read) {
  const auto manifest = read_text(dump_json(valid()));
  REQUIRE(manifest.ok());
  const auto talker = manifest.value().program("talker");
  REQUIRE(talker.ok());
  CHECK_EQUAL(talker.value().path, "./talker.pte");
  CHECK_EQUAL(talker.value().bytes, uint64_t{100});
  const auto layout = manifest.value().table_layout("codec");
  REQUIRE(layout.ok());
  CHECK(layout.value().type == TableType::Float16);
  CHECK(layout.value().rows == (std::vector<int64_t>{5, 4}));
  CHECK(manifest.value().expect_size("hidden_size", 8).ok());
}

TEST(missing_parts_are_named_when_asked_for) {
  const auto manifest = read_text(dump_json(valid()));
  REQUIRE(manifest.ok());
  CHECK_CONTAINS(manifest.value().program("speaker_encoder").error().message, "has no speaker_encoder");
  CHECK_CONTAINS(manifest.value().table("text").error().message, "lists no table text");
  CHECK_CONTAINS(manifest.value().expect_size("hidden_size", 16).error().message, "hidden_size is 8, its program says 16");
  CHECK_CONTAINS(manifest.value().expect_size("layers", 2).error().message, "layers is missing");
}

TEST(another_contract_or_runtime_names_the_remedy) {
  CHECK_CONTAINS(refusal("/contract", 2), "has contract 2, this runner needs 1; export the checkpoint again with kz export");
  CHECK_CONTAINS(refusal("/contract", "1"), "has contract \"1\"");
  CHECK_CONTAINS(refusal("/executorch", "1.4.0"), "was made for ExecuTorch \"1.4.0\", this runner has " KZ_EXECUTORCH_VERSION);
}

TEST(damage_is_named) {
  CHECK_CONTAINS(read_text("{").error().message, "is damaged: it is not JSON");
  CHECK_CONTAINS(read_text("[]").error().message, "is damaged: it is not JSON");
  CHECK_CONTAINS(read_text("{}").error().message, "has contract none");
  CHECK_CONTAINS(read_text("").error().message, "is not a bundle");
  CHECK_CONTAINS(Manifest::read("no/such/folder").error().message, "no/such/folder is not a bundle");
  CHECK_CONTAINS(refusal("/programs", 3), "no usable programs");
  CHECK_CONTAINS(refusal("/files", Json::object()), "no usable files");
  CHECK_CONTAINS(refusal("/programs/talker", Json::object()), "program talker has no usable file");
  CHECK_CONTAINS(refusal("/tables/codec/rows", {1, -1}), "table codec is not described properly");
  CHECK_CONTAINS(refusal("/tables/codec/width", 1e30), "table codec");
  CHECK_CONTAINS(refusal("/tables/codec/dtype", "bf16"), "table codec");
  CHECK_CONTAINS(refusal("/files/0/bytes", -1), "an entry of files");
}

TEST(files_outside_the_folder_are_refused) {
  for (const char* name : {"/etc/passwd", "../talker.pte", "a/../../b", "..", ""}) {
    CHECK_CONTAINS(refusal("/programs/talker/file", name), "no usable file");
  }
  CHECK_EQUAL(refusal("/files/0/name", "voices/a.npy"), "accepted");
}

TEST(a_file_that_is_not_listed_is_refused) {
  Json json = valid();
  json["files"].erase(0);
  const auto manifest = read_text(dump_json(json));
  REQUIRE(manifest.ok());
  CHECK_CONTAINS(manifest.value().program("talker").error().message, "does not list the file talker.pte");
}

}  // namespace kz
