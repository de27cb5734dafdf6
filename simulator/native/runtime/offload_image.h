// Images of code objects loaded at run time: a bare ELF file or clang's uncompressed offload bundle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hipsynth::runtime {

size_t image_size(const void* image);               // 0 if neither an ELF file nor an offload bundle
bool is_bundle(const std::vector<uint8_t>& image);  // an offload bundle for several targets
// The ELF file for `arch` ("gfx90a"); empty if the image has none.
std::vector<uint8_t> extract_elf(const std::vector<uint8_t>& image, const std::string& arch);

}  // namespace hipsynth::runtime
