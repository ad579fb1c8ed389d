package tokenizer

// byteBPE is the family of GPT-2 and RoBERTa: the bytes of a word are joined
// pair by pair, the pair that was learnt first going first.
type byteBPE struct {
	prefixBlank  bool
	ignoreMerges bool // a word that is a token is left whole
	tokens       map[string]int32
	bytes        [256]int32 // -1 for a byte without a token
	unknown      int32      // -1 drops bytes without a token
	fuseUnknown  bool
	merges       map[pair]merge
	cache        *cache
}

type pair struct{ left, right int32 }

type merge struct{ rank, id int32 }

// bpeScratch holds the buffers of mergeWord.
type bpeScratch struct {
	symbols []symbol
	queue   []candidate
}

// symbol is a part of a word, in a doubly linked list by position.
type symbol struct {
	id         int32
	prev, next int32 // -1 at the ends
	gone       bool  // merged into the symbol before it
}

// candidate is a merge that was possible when it was queued.
type candidate struct {
	merge
	at int32 // position of the left symbol
}

func (c candidate) before(d candidate) bool {
	return c.rank < d.rank || c.rank == d.rank && c.at < d.at
}

func (m *byteBPE) normalize(dst []byte, text string) []byte { return append(dst, text...) }

func (m *byteBPE) encode(dst []int64, text []byte, s *scratch) []int64 {
	if len(text) > 0 && m.prefixBlank && text[0] != ' ' {
		s.prefix = append(append(s.prefix[:0], ' '), text...)
		text = s.prefix
	}
	encodeWord := func(dst []int64, word []byte) []int64 { return m.encodeWord(dst, word, &s.bpe) }
	for len(text) > 0 {
		n := nextWord(text)
		dst = m.cache.appendIDs(dst, text[:n], encodeWord)
		text = text[n:]
	}
	return dst
}

func (m *byteBPE) encodeWord(dst []int64, word []byte, s *bpeScratch) []int64 {
	if m.ignoreMerges {
		if id, ok := m.tokens[string(word)]; ok {
			return append(dst, int64(id))
		}
	}
	s.symbols = m.appendSymbols(s.symbols[:0], word)
	m.mergeAll(s)
	for _, symbol := range s.symbols {
		if !symbol.gone {
			dst = append(dst, int64(symbol.id))
		}
	}
	return dst
}

func (m *byteBPE) appendSymbols(symbols []symbol, word []byte) []symbol {
	unknownBefore := false
	for _, c := range word {
		id := m.bytes[c]
		known := id >= 0
		if !known {
			if m.unknown < 0 || m.fuseUnknown && unknownBefore {
				continue
			}
			id = m.unknown
		}
		unknownBefore = !known
		at := int32(len(symbols))
		symbols = append(symbols, symbol{id: id, prev: at - 1, next: at + 1})
	}
	if len(symbols) > 0 {
		symbols[len(symbols)-1].next = -1
	}
	return symbols
}

// mergeAll joins symbols until no merge is left. Like the reference, it tells a
// stale candidate by the token that would come of it, not by its rank.
func (m *byteBPE) mergeAll(s *bpeScratch) {
	s.queue = s.queue[:0]
	for i := range len(s.symbols) - 1 {
		m.propose(s, int32(i))
	}
	for len(s.queue) > 0 {
		top := s.pop()
		left := &s.symbols[top.at]
		if left.gone || left.next < 0 {
			continue
		}
		right := &s.symbols[left.next]
		if now, ok := m.merges[pair{left.id, right.id}]; !ok || now.id != top.id {
			continue
		}
		left.id, left.next = top.id, right.next
		right.gone = true
		if right.next >= 0 {
			s.symbols[right.next].prev = top.at
		}
		if left.prev >= 0 {
			m.propose(s, left.prev)
		}
		if left.next >= 0 {
			m.propose(s, top.at)
		}
	}
}

// propose queues the merge of the symbol at a position with the next, if any.
func (m *byteBPE) propose(s *bpeScratch, at int32) {
	left := s.symbols[at]
	if found, ok := m.merges[pair{left.id, s.symbols[left.next].id}]; ok {
		s.push(candidate{found, at})
	}
}

// push and pop keep the queue a binary heap. (container/heap would allocate for
// each candidate.)
func (s *bpeScratch) push(c candidate) {
	s.queue = append(s.queue, c)
	q := s.queue
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (s *bpeScratch) pop() candidate {
	q := s.queue
	top := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	s.queue = q
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q); child++ {
			if q[child].before(q[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
