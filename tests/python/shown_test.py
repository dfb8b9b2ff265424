#!/usr/bin/env python3
"""What a notebook shows of schedules, traces, plans and searches."""
# SPDX-License-Identifier: Apache-2.0
import json
import shutil
import unittest
import xml.etree.ElementTree

import weir
from case import Case


class Shown(Case):
    # A notebook asks an object for a picture of itself (IPython's _repr_svg_).
    def test_schedules_and_traces_show_themselves(self):
        order = weir.schedule("1f1b", 2, 3)
        svg = order._repr_svg_()
        drawn = xml.etree.ElementTree.fromstring(svg)  # nothing in it ends it too early
        # F and B of 3 micro-batches on 2 ranks, each with its tip.
        tips = [tip.text for tip in drawn.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(sorted(tip.split()[0] for tip in tips),
                         sorted(name for row in order.order for name in row))
        self.assertIn(">1f1b<", svg)
        plan = weir.plan("tiny.json", pp=2, microbatches=3)
        _, trace = weir.simulate(plan)
        self.assertIn(f">{plan}<", trace._repr_svg_())
        self.assertIn("predicted", trace._repr_svg_())

    # A plan's cell is its words and its order drawn; a name is text in it, whatever it is.
    def test_plans_show_themselves(self):
        name = "<img src=x onerror=1>&'.json"
        shutil.copy("tiny.json", name)
        plan = weir.plan(name, pp=2, microbatches=3, boundaries=[2])
        cell = plan._repr_html_()
        self.assertNotIn("<img", cell)
        self.assertIn("<td>&lt;img src=x onerror=1&gt;&amp;'.json</td>", cell)
        whole = xml.etree.ElementTree.fromstring(f"<div>{cell}</div>")  # all that begins ends
        said = {row[0].text: row[1].text for row in whole.iter("tr")}
        self.assertEqual((said["ranks, K"], said["micro-batches, M"]), ("2", "3 of 1 sample"))
        # Layers 0 and 1, and the rest up to the last, whose number is one less than their count.
        last = len(plan.layer_keys) - 1
        self.assertEqual(said["layers by stage"], f"0-1, 2-{last}")
        tips = whole.findall(".//{http://www.w3.org/2000/svg}title")
        self.assertEqual(len(tips), sum(map(len, plan.schedule.order)))

    # A search's cell has a row of each plan that the page of the command has, and the front drawn.
    def test_searches_show_themselves(self):
        asked = {"pp": [1, 2], "microbatches": [4], "schedule": ["gpipe", "1f1b"]}
        found = weir.sweep("tiny.json", **asked)
        self.assertIsInstance(found, weir.Search)
        self.assertEqual(found.keys(), weir.commands.sweep("tiny.json", **asked).keys())
        whole = xml.etree.ElementTree.fromstring(f"<div>{found._repr_html_()}</div>")
        rows = list(whole.iter("tr"))
        self.assertEqual(len(rows), 1 + min(5, len(found["plans"])))
        for place, (row, plan) in enumerate(zip(rows[1:], found["plans"]), 1):
            self.assertEqual(row[0].text, f"{place}: {weir.Plan.from_dict(plan['plan'])}")
        texts = [text.text for text in whole.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("Step time against memory", texts)
        # A dict of its own, as any other is, which shows what is in it by then.
        self.assertEqual(json.loads(json.dumps(found)), found)
        copied = found.copy()
        self.assertIsInstance(copied, weir.Search)
        self.assertEqual(copied._repr_html_(), found._repr_html_())
        copied["plans"] = copied["plans"][1:]
        shown = xml.etree.ElementTree.fromstring(f"<div>{copied._repr_html_()}</div>")
        self.assertEqual(list(shown.iter("tr"))[1][0].text,
                         f"1: {weir.Plan.from_dict(found['plans'][1]['plan'])}")
        del copied["plans"]
        self.assertIsNone(copied._repr_html_())
        # However many there are, the cell is no longer than that of some 50.
        copied["plans"] = 300 * found["plans"]
        self.assertLess(len(copied._repr_html_()), 40000)

if __name__ == "__main__":
    unittest.main()
