#include "timing/work.h"

#include "core/machine.h"

namespace hipsynth {

Work from_numbers(const std::map<std::string, double>& numbers) {
  Work work;
  for (const auto& [name, value] : numbers) {
    const Field<Work>* found = nullptr;
    for (const Field<Work>& field : Work::kFields) {
      if (name == field.name) found = &field;
    }
    if (!found) throw SimError(Reason::bad_work, "the timing model knows no " + name);
    work.*found->member = value;
  }
  return work;
}

}  // namespace hipsynth
