#include "model/jinja/text.hpp"

namespace ebb::model::jinja {

void text::append(const text& other) {
  if (!other.marks_.empty() || !marks_.empty()) {
    marks_.resize(bytes_.size());
    marks_ += other.marks_;
    marks_.resize(bytes_.size() + other.bytes_.size());
  }
  bytes_ += other.bytes_;
}

text text::cut(std::size_t begin, std::size_t size) const {
  text out;
  out.bytes_ = bytes_.substr(begin, size);
  if (!marks_.empty()) out.marks_ = marks_.substr(begin, size);
  return out;
}

}  // namespace ebb::model::jinja
