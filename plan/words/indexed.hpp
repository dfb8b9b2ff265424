// Containers addressed by a typed index: what belongs to a stage cannot be asked for by a rank, and
// no place casts an id to a position.
//
//   Indexed<Stage, Bytes> held(stages);
//   for (const Stage stage : held.ids()) held[stage] += ...;
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "plan/words/units.hpp"

namespace weir {

// A plain number as a position; it must not be negative.
[[nodiscard]] constexpr std::size_t at(std::integral auto index) {
  return static_cast<std::size_t>(index);
}

// The ids [first, last), in order; empty where last is not above first.
template <class Id>
class Ids {
 public:
  class Iterator {
   public:
    using value_type = Id;
    using difference_type = std::ptrdiff_t;
    using pointer = const Id*;
    using reference = Id;
    using iterator_category = std::input_iterator_tag;
    constexpr Iterator() = default;
    constexpr explicit Iterator(Id id) : id_(id) {}
    constexpr Id operator*() const { return id_; }
    constexpr Iterator& operator++() {
      ++id_;
      return *this;
    }
    constexpr Iterator operator++(int) {
      const Iterator here = *this;
      ++id_;
      return here;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    Id id_;
  };

  constexpr Ids(Id first, Id last) : first_(first), last_(last < first ? first : last) {}
  // 0 .. count-1.
  constexpr explicit Ids(std::integral auto count) : Ids(Id{0}, Id{count}) {}
  [[nodiscard]] constexpr Iterator begin() const { return Iterator(first_); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(last_); }
  [[nodiscard]] constexpr std::size_t size() const {
    return static_cast<std::size_t>(last_ - first_);
  }
  [[nodiscard]] constexpr bool empty() const { return first_ == last_; }

 private:
  Id first_, last_;
};

// A vector whose position i belongs to Id{i}. Element access is unchecked, as a vector's.
template <class Id, class T>
class Indexed : private std::vector<T> {
  using Base = std::vector<T>;

 public:
  using typename Base::const_iterator;
  using typename Base::const_reference;
  using typename Base::iterator;
  using typename Base::reference;
  using typename Base::value_type;

  Indexed() = default;
  explicit Indexed(std::integral auto count, const T& value = T())
      : Base(static_cast<std::size_t>(count), value) {}
  explicit Indexed(Base values) : Base(std::move(values)) {}

  using Base::back;
  using Base::begin;
  using Base::clear;
  using Base::data;
  using Base::emplace_back;
  using Base::empty;
  using Base::end;
  using Base::front;
  using Base::push_back;
  using Base::rbegin;
  using Base::rend;
  using Base::reserve;
  using Base::size;
  void resize(std::integral auto count) { Base::resize(static_cast<std::size_t>(count)); }
  void assign(std::integral auto count, const T& value) {
    Base::assign(static_cast<std::size_t>(count), value);
  }

  [[nodiscard]] reference operator[](Id id) { return Base::operator[](id.position()); }
  [[nodiscard]] const_reference operator[](Id id) const { return Base::operator[](id.position()); }
  [[nodiscard]] Ids<Id> ids() const { return Ids<Id>(size()); }
  [[nodiscard]] bool has(Id id) const { return id.value >= 0 && id.position() < size(); }
  // The id that the next push_back fills.
  [[nodiscard]] Id next() const { return Id{size()}; }
  // As the vector it is, for who knows no ids.
  [[nodiscard]] const Base& values() const { return *this; }

  bool operator==(const Indexed&) const = default;
};

// The same over values that somebody else holds.
template <class Id, class T>
class IndexedView {
 public:
  constexpr IndexedView() = default;
  constexpr IndexedView(std::span<T> values) : values_(values) {}
  [[nodiscard]] constexpr T& operator[](Id id) const { return values_[id.position()]; }
  [[nodiscard]] constexpr std::size_t size() const { return values_.size(); }
  [[nodiscard]] constexpr auto begin() const { return values_.begin(); }
  [[nodiscard]] constexpr auto end() const { return values_.end(); }
  [[nodiscard]] constexpr Ids<Id> ids() const { return Ids<Id>(size()); }

 private:
  std::span<T> values_;
};

}  // namespace weir
