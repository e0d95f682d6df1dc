// The table of all lists. It is compiled once and changed in place: cells that NiceGUI makes from a slot's template are
// components each, and all of them are made anew at every change.
//
// A column shows the row's `name_text`, else its value. Vue escapes what stands in {{ }} and in bound attributes;
// addresses are made by the console, never by an event.
const BODY = `
<tr class="q-tr" :class="{ selected: props.selected }">
  <td v-if="$attrs.selection === 'multiple'" class="q-td q-table--col-auto-width choice">
    <q-checkbox v-model="props.selected" dense :aria-label="'Select ' + called(props)" />
  </td>
  <td v-for="col in props.cols" :key="col.name" class="q-td" :class="col.classes" :data-label="col.label || null">
    <button v-if="col.kind === 'opener'" class="act" type="button" :aria-expanded="props.expand"
      :aria-label="(props.expand ? 'Close ' : 'Open ') + props.key" @click="turn(props)"
    >{{ props.expand ? "▾" : "▸" }}</button>
    <div v-else-if="col.kind === 'acts'" class="acts">
      <button v-for="act in props.row[col.name]" :key="act" class="act" type="button"
        :aria-label="act + ' ' + called(props)" @click="$emit('act', act, props.key)">{{ act }}</button>
    </div>
    <div v-else-if="col.kind === 'rate'" class="rate">
      <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
        <polygon :points="of(props.row, col, 'area')" /><polyline :points="of(props.row, col, 'curve')" />
      </svg>
      <span>{{ shown(props.row, col) }}</span>
    </div>
    <span v-else-if="col.kind === 'mono'" class="mono wrap">{{ shown(props.row, col) }}</span>
    <div v-else-if="col.kind === 'lines'" class="lines">{{ shown(props.row, col) }}</div>
    <template v-else-if="col.kind === 'number' || col.kind === 'count'">
      <a v-if="of(props.row, col, 'url')" :href="of(props.row, col, 'url')" :class="of(props.row, col, 'tone')"
      >{{ shown(props.row, col) }}</a>
      <span v-else :class="of(props.row, col, 'tone')">{{ shown(props.row, col) }}</span>
    </template>
    <div v-else>
      <span v-if="col.kind === 'chip'" class="chip" :class="of(props.row, col, 'tone')">{{ shown(props.row, col) }}</span>
      <a v-else-if="of(props.row, col, 'url')" :href="of(props.row, col, 'url')">{{ shown(props.row, col) }}</a>
      <component v-else :is="col.kind === 'link' ? 'span' : 'div'">{{ shown(props.row, col) }}</component>
      <div v-if="of(props.row, col, 'why')" class="why">{{ of(props.row, col, "why") }}</div>
    </div>
  </td>
</tr>
<tr v-if="props.expand" class="q-tr inside">
  <td class="q-td" colspan="100%"><slot name="inside" :row="props.row" /></td>
</tr>`;

const of = (row, col, part) => row[`${col.name}_${part}`];

export default {
  template: `
    <q-table ref="qRef" v-bind="given" v-model:pagination="pagination" :filter-method="found" hide-selected-banner
      no-results-label="Nothing is like this.">
      <template v-slot:header-cell="props">
        <q-th :props="props" :tabindex="props.col.sortable ? 0 : null" :aria-sort="order(props.col)"
          @keydown.enter="props.sort(props.col)" @keydown.space.prevent="props.sort(props.col)">{{ props.col.label }}</q-th>
      </template>
      <template v-slot:header-selection="props">
        <q-checkbox v-model="props.selected" dense aria-label="Select all of this page" />
      </template>
      <template v-slot:body="props">${BODY}</template>
    </q-table>
  `,
  emits: ["act", "opened"],
  // The order is the browser's own: the server, told of it, would answer with the whole table, at every load too.
  inheritAttrs: false,
  data() {
    return { pagination: this.$attrs.pagination };
  },
  computed: {
    given() {
      const { pagination, "onUpdate:pagination": told, ...rest } = this.$attrs;
      return rest;
    },
  },
  methods: {
    of,
    shown: (row, col) => row[`${col.name}_text`] ?? row[col.name],
    // By names and states: what a row is not called by, as its numbers and buttons, finds too much.
    found(rows, wanted, cols) {
      const searched = cols.filter((col) => ["link", "chip"].includes(col.kind));
      const words = (row, col) => [row[col.name], of(row, col, "text"), of(row, col, "why")];
      const is = (word) => typeof word === "string" && word.toLowerCase().includes(wanted.trim().toLowerCase());
      return rows.filter((row) => searched.some((col) => words(row, col).some(is)));
    },
    order(col) {
      const { sortBy, descending } = this.pagination;
      return !col.sortable ? null : sortBy !== col.name ? "none" : descending ? "descending" : "ascending";
    },
    called: (props) => props.row.called ?? props.key,
    turn(props) {
      props.expand = !props.expand;
      if (props.expand) this.$emit("opened", props.key);
    },
  },
};
