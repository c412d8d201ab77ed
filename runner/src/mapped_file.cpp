#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kz {
namespace {

Error open_error(const std::string& path, const char* reason) {
  return make_error(ErrorCode::LoadFailed, "cannot read %s: %s; deploy or export the bundle again", path.c_str(), reason);
}

Result<std::size_t> size_of(int descriptor, const std::string& path) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) {
    return open_error(path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return open_error(path, "not a file");
  }
  if (status.st_size == 0) {
    return open_error(path, "the file is empty");
  }
  return static_cast<std::size_t>(status.st_size);
}

}  // namespace

Error wrong_size(const std::string& path, uint64_t actual, uint64_t expected) {
  return make_error(ErrorCode::LoadFailed,
                    "%s has %llu bytes instead of %llu; it is truncated or foreign: deploy or export the bundle again",
                    path.c_str(), static_cast<unsigned long long>(actual), static_cast<unsigned long long>(expected));
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return open_error(path, std::strerror(errno));
  }
  const auto size = size_of(descriptor, path);
  if (!size.ok()) {
    ::close(descriptor);
    return size.error();
  }
  void* address = ::mmap(nullptr, size.value(), PROT_READ, MAP_SHARED, descriptor, 0);
  const int failure = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) {
    return open_error(path, std::strerror(failure));
  }
  return MappedFile(address, size.value());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) {
    ::munmap(address_, size_);
  }
}

}  // namespace kz
