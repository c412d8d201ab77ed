#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "codec_embeddings.h"
#include "error.h"

namespace kz {

/// The part of a bundle's manifest.json the runner needs. The orchestrator validates the rest.
class Manifest {
 public:
  /// Reads the manifest in `folder`. LoadFailed when it is missing, damaged, of another contract or for another ExecuTorch.
  static Result<Manifest> read(const std::string& folder);

  /// A file of the bundle.
  struct FileEntry {
    std::string name;  ///< in the bundle
    std::string path;  ///< below the folder given to `read`
    uint64_t bytes = 0;
  };

  /// The file of program `name` ("talker", ...); LoadFailed when the bundle has none.
  Result<FileEntry> program(const std::string& name) const;

  bool has_program(const std::string& name) const { return programs_.count(name) > 0; }

  /// File and layout of table `name`.
  Result<FileEntry> table(const std::string& name) const;
  Result<CodecEmbeddings::Layout> table_layout(const std::string& name) const;

  /// Fails (LoadFailed) unless `model.<key>` is `actual`, which a program says.
  Status expect_size(const char* key, std::size_t actual) const;

 private:
  struct Table {
    std::string file;
    CodecEmbeddings::Layout layout;
  };

  Status fill(const class ManifestReader& reader);
  Result<FileEntry> entry(const std::string& file) const;

  std::string folder_;
  std::map<std::string, std::string> programs_;  ///< name to file
  std::map<std::string, Table> tables_;
  std::map<std::string, uint64_t> file_bytes_;
  std::map<std::string, int64_t> sizes_;  ///< integers of `model`
};

}  // namespace kz
