// Code objects as programs hand them over at run time: a bare ELF file or clang's uncompressed offload bundle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hipsynth::runtime {

size_t image_size(const void* image);               // 0 when neither an ELF file nor an offload bundle
bool is_bundle(const std::vector<uint8_t>& image);  // of code objects for several targets
// The ELF file for `arch` ("gfx90a"); empty when the image has none.
std::vector<uint8_t> extract_elf(const std::vector<uint8_t>& image, const std::string& arch);

}  // namespace hipsynth::runtime
